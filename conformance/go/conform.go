// Runs every vector through santhosh-tekuri/jsonschema, cel-go and canonical; one JSON line a vector (see ../run.py).
// Usage: conform BUNDLE VECTORS...
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"firstnan.example/conformance/canonical"
)

type place struct{ Path, When, Member, Rule string }

type kind struct {
	Schema          string
	Profile         canonical.Profile
	Rules, Integers []place
	validator       *jsonschema.Schema
	programs        []cel.Program
}

type answer struct {
	Vector   string  `json:"vector"`
	Shape    *bool   `json:"shape"`
	Rule     *bool   `json:"rule"`
	Valid    *bool   `json:"valid"`
	Bytes    *string `json:"bytes"`
	Identity *string `json:"identity"`
}

var (
	kinds = map[string]*kind{}
	out   = bufio.NewWriter(os.Stdout)
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func ptr[T any](value T) *T { return &value }

func load(path string) {
	var bundle struct {
		Kinds map[string]*kind           `json:"x-firstnan-kinds"`
		Defs  map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(must(os.ReadFile(path)), &bundle); err != nil {
		panic(err)
	}
	kinds = bundle.Kinds
	compiler := jsonschema.NewCompiler()
	schemas := map[string]any{}
	for name, text := range bundle.Defs {
		schemas[name] = must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))
		if err := compiler.AddResource(schemas[name].(map[string]any)["$id"].(string), schemas[name]); err != nil {
			panic(err)
		}
	}
	environment := must(cel.NewEnv(cel.Variable("self", cel.DynType)))
	meta := compiler.MustCompile(schemas["meta"].(map[string]any)["$id"].(string))
	for name, kind := range kinds {
		kind.validator = compiler.MustCompile(kind.Schema)
		for _, rule := range kind.Rules {
			ast, issues := environment.Compile(rule.Rule)
			if issues.Err() != nil {
				panic(issues.Err())
			}
			kind.programs = append(kind.programs, must(environment.Program(ast)))
		}
		print(answer{Vector: "schema/" + name, Shape: ptr(meta.Validate(schemas[name]) == nil)})
	}
}

func print(a answer) {
	fmt.Fprintf(out, "%s\n", must(json.Marshal(a)))
}

// plain is a value as cel-go wants it: integers as int64 where they fit.
func plain(value any) any {
	switch value := value.(type) {
	case canonical.Integer:
		if number, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			return number
		}
		return must(strconv.ParseFloat(string(value), 64))
	case canonical.Text:
		return string(value)
	case []any:
		list := []any{}
		for _, item := range value {
			list = append(list, plain(item))
		}
		return list
	case canonical.Object:
		object := map[string]any{}
		for _, member := range value {
			object[string(member.Name)] = plain(member.Value)
		}
		return object
	}
	return value
}

// valuesAt is what stands at a path such as /stages/*, null left out.
func valuesAt(value any, path string) []any {
	found := []any{value}
	for _, name := range strings.Split(path, "/")[1:] {
		next := []any{}
		for _, each := range found {
			if name == "*" {
				next = append(next, each.([]any)...)
			} else {
				next = append(next, each.(map[string]any)[name])
			}
		}
		found = next
	}
	kept := []any{}
	for _, each := range found {
		if each != nil {
			kept = append(kept, each)
		}
	}
	return kept
}

// objects are those that a rule or an integer of the bundle is about.
func objects(value any, of place) []any {
	tag, wanted, _ := strings.Cut(of.When, "=")
	kept := []any{}
	for _, object := range valuesAt(value, of.Path) {
		if of.When == "" || object.(map[string]any)[tag] == wanted {
			kept = append(kept, object)
		}
	}
	return kept
}

func (k *kind) rulesHold(value any) bool {
	for i, rule := range k.Rules {
		for _, self := range objects(value, rule) {
			result, _, err := k.programs[i].Eval(map[string]any{"self": self})
			if err != nil || result.Value() != true {
				return false
			}
		}
	}
	return true
}

// integersAreIntegers refuses 5.0, which JSON Schema takes for an integer.
func (k *kind) integersAreIntegers(value any) bool {
	for _, integer := range k.Integers {
		for _, object := range objects(value, integer) {
			for _, number := range valuesAt(object, integer.Member) {
				if _, ok := number.(int64); !ok {
					return false
				}
			}
		}
	}
	return true
}

func identity(name string, value any, data []byte) *string {
	switch {
	case kinds[name].Profile == canonical.Record:
		return ptr(canonical.SHA256(data))
	case name == "training-incident-contract":
		return ptr(canonical.ContentID(name, data))
	case name == "training-run-evidence":
		members := canonical.Object{}
		for _, member := range value.(canonical.Object) {
			if string(member.Name) != "evidence_content_id" {
				members = append(members, member)
			}
		}
		return ptr(canonical.ContentID("training-incident-evidence", must(canonical.Write(members, canonical.Evidence, 0))))
	}
	return nil
}

func record(vector, name string, text []byte, onWire bool) {
	kind, a, valid := kinds[name], answer{Vector: vector}, false
	if parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text)); err == nil {
		a.Shape = ptr(kind.validator.Validate(parsed) == nil)
	}
	exact, unreadable := canonical.Read(text, canonical.Evidence)
	value := plain(exact)
	if a.Shape != nil && *a.Shape && unreadable == nil {
		a.Rule = ptr(kind.rulesHold(value))
		valid = *a.Rule && kind.integersAreIntegers(value) && canonical.WellFormed(exact)
	}
	data, err := canonical.Canonicalize(text, kind.Profile, canonical.MaxBytes)
	valid = valid && err == nil && (!onWire || bytes.Equal(data, text))
	a.Valid = &valid
	if err == nil {
		a.Bytes = ptr(canonical.SHA256(data))
	}
	if valid {
		a.Identity = identity(name, exact, data)
	}
	print(a)
}

func canonicalText(vector string, profile canonical.Profile, text []byte, maxBytes int) {
	a := answer{Vector: vector}
	if data, err := canonical.Canonicalize(text, profile, maxBytes); err == nil {
		a.Bytes = ptr(canonical.SHA256(data))
		if profile == canonical.Evidence && data[0] == '{' {
			a.Identity = ptr(canonical.ContentID("vector", data))
		}
	}
	print(a)
}

type vector struct {
	Case, Text, Hex, Bits, Contract, Evidence string
	MaxBytes                                  *int `json:"max_bytes"`
	Report, Identity                          json.RawMessage
	Inventories                               []json.RawMessage
}

func run(folder, stem string, index int, line []byte) {
	var v vector
	if err := json.Unmarshal(line, &v); err != nil {
		panic(err)
	}
	id := folder + "/" + v.Case
	if v.Case == "" {
		id = fmt.Sprintf("%s/%s-%d", folder, stem, index)
	}
	switch {
	case folder == "kinds" || folder == "records":
		record(id, stem, []byte(v.Text), false)
	case folder == "wire":
		record(id, stem, must(hex.DecodeString(v.Hex)), true)
	case stem == "float64-text":
		float := math.Float64frombits(must(strconv.ParseUint(v.Bits, 16, 64)))
		print(answer{Vector: id, Bytes: ptr(canonical.SHA256(must(canonical.Write(float, canonical.Evidence, 0))))})
	case folder == "canonical":
		maxBytes := canonical.MaxBytes
		if v.MaxBytes != nil {
			maxBytes = *v.MaxBytes
		}
		canonicalText(id, canonical.Profile(strings.TrimSuffix(stem, "-profile")), []byte(v.Text), maxBytes)
	case folder == "triage":
		record(id+"/contract", "training-incident-contract", []byte(v.Contract), false)
		record(id+"/evidence", "training-run-evidence", []byte(v.Evidence), false)
		if v.Report != nil {
			record(id+"/report", "incident-report", v.Report, false)
		}
	case stem == "inventory-consensus":
		record(id+"/identity", "run-identity", v.Identity, false)
		for i, inventory := range v.Inventories {
			record(fmt.Sprintf("%s/inventories/%d", id, i), "rank-inventory", inventory, false)
		}
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: conform BUNDLE VECTORS...")
		os.Exit(2)
	}
	defer out.Flush()
	load(os.Args[1])
	for _, root := range os.Args[2:] {
		for _, folder := range []string{"canonical", "kinds", "lifecycle", "records", "triage", "wire"} {
			for _, path := range must(filepath.Glob(filepath.Join(root, folder, "*.jsonl"))) {
				stem := strings.TrimSuffix(filepath.Base(path), ".jsonl")
				for i, line := range bytes.Split(bytes.TrimSpace(must(os.ReadFile(path))), []byte("\n")) {
					run(folder, stem, i, line)
				}
			}
		}
	}
}
