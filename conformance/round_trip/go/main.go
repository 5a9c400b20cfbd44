// Round trip of every valid vector through the structs; one JSON line a vector (see ../../round_trip.py).
// Usage: roundtrip VECTORS
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"firstnan.example/conformance/canonical"
	firstnan "firstnan.example/types"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	vectors, out := json.NewDecoder(bufio.NewReader(file)), json.NewEncoder(os.Stdout)
	for vectors.More() {
		var each struct {
			Vector, Kind, Text string
			Profile            canonical.Profile
		}
		if err := vectors.Decode(&each); err != nil {
			return err
		}
		record := firstnan.Kinds[each.Kind]()
		if err := firstnan.Decode([]byte(each.Text), record); err != nil {
			return fmt.Errorf("%s: %w", each.Vector, err)
		}
		written, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("%s: %w", each.Vector, err)
		}
		bytes, err := canonical.Canonicalize(written, each.Profile, canonical.MaxBytes)
		if err != nil {
			return fmt.Errorf("%s: %w", each.Vector, err)
		}
		if err := out.Encode(map[string]string{"vector": each.Vector, "bytes": canonical.SHA256(bytes)}); err != nil {
			return err
		}
	}
	return nil
}
