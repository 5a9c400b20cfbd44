// Package firstnan has a struct for each record. A struct keeps every value whole: a json.Number keeps the type it was
// written in, since 1024 and 1024.0 have different identities. It checks no bound and no rule: validate first.
package firstnan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode reads one record into a pointer, such as one that Kinds makes. A name that the record does not have is an error.
func Decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("something after the record")
	}
	return nil
}
