// Package canonical makes the canonical bytes and identities of firstnan's records: a strict JSON reader and a writer
// with two profiles.
//
// You may copy this file into your project: it needs nothing but the standard library and stands under the Apache
// License 2.0 (SPDX-License-Identifier: Apache-2.0). What it does is written in docs/canonical.md of firstnan, and
// `make conformance` holds it to every vector in schemas/vectors.
//
// encoding/json will not do: it drops duplicate names, replaces what is not UTF-8 and lone surrogates, escapes < > &
// and lays out floats otherwise.
package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Profile of canonical bytes.
type Profile string

const (
	Record   Profile = "record"   // UTF-8, integers only
	Evidence Profile = "evidence" // ASCII, floats
	MaxBytes         = 65536      // of the record profile

	maxItems  = 4096
	maxDigits = 4300
)

// A value is nil, a bool, an Integer, a float64, a Text, a []any or an Object.
type (
	Integer string // decimal digits of any number, "-0" written "0"
	Text    []rune // code points, since a Go string has no form for a lone surrogate
	Member  struct {
		Name  Text
		Value any
	}
	Object []Member // sorted by code point
)

func (p Profile) maxDepth() int {
	if p == Record {
		return 16
	}
	return 256
}

// Get is a member's value, and whether there is such a member.
func (o Object) Get(name string) (any, bool) {
	for _, member := range o {
		if string(member.Name) == name {
			return member.Value, true
		}
	}
	return nil, false
}

// refused is what the reader and the writer panic with; Read and Write return it as an error.
type refused struct{ error }

func catch(err *error) {
	switch caught := recover().(type) {
	case nil:
	case refused:
		*err = caught.error
	default:
		panic(caught)
	}
}

// Read is the value of a JSON text: RFC 8259 to the letter, no name twice, within the depth of the profile.
func Read(data []byte, profile Profile) (value any, err error) {
	defer catch(&err)
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	r := reader{text: string(data), maxDepth: profile.maxDepth()}
	value = r.value(0)
	if r.space(); r.at != len(r.text) {
		r.refuse("something after the value")
	}
	return value, nil
}

type reader struct {
	text     string
	at       int
	maxDepth int
}

var number = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)

func (r *reader) refuse(what string) {
	panic(refused{fmt.Errorf("%s at %d", what, r.at)})
}

func (r *reader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\n\r", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *reader) take(token string) bool {
	r.space()
	if !strings.HasPrefix(r.text[r.at:], token) {
		return false
	}
	r.at += len(token)
	return true
}

func (r *reader) expect(token string) {
	if !r.take(token) {
		r.refuse("no " + token)
	}
}

func (r *reader) value(depth int) any {
	switch {
	case depth > r.maxDepth:
		r.refuse("nested too deep")
	case r.take("{"):
		return r.object(depth)
	case r.take("["):
		return r.array(depth)
	case r.take(`"`):
		return r.string()
	case r.take("true"):
		return true
	case r.take("false"):
		return false
	case r.take("null"):
		return nil
	}
	return r.number()
}

func (r *reader) array(depth int) []any {
	items := []any{}
	if r.take("]") {
		return items
	}
	for {
		items = append(items, r.value(depth+1))
		if r.take("]") {
			return items
		}
		r.expect(",")
	}
}

func (r *reader) object(depth int) Object {
	members := Object{}
	for more := !r.take("}"); more; more = !r.take("}") {
		if len(members) > 0 {
			r.expect(",")
		}
		r.expect(`"`)
		name := r.string()
		r.expect(":")
		members = append(members, Member{name, r.value(depth + 1)})
	}
	slices.SortFunc(members, func(a, b Member) int { return slices.Compare(a.Name, b.Name) })
	for i := 1; i < len(members); i++ {
		if slices.Equal(members[i-1].Name, members[i].Name) {
			r.refuse("a name twice in the object that ends")
		}
	}
	return members
}

// string reads on after the quote.
func (r *reader) string() Text {
	text := Text{}
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return text
		case c < 0x20:
			r.refuse("a control character")
		case c == '\\':
			text = append(text, r.escape())
		default:
			character, length := utf8.DecodeRuneInString(r.text[r.at:])
			text = append(text, character)
			r.at += length
		}
	}
	r.refuse("no closing quote")
	return nil
}

const escapeLetters, escapeMeanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

func (r *reader) escape() rune {
	if r.at+1 < len(r.text) {
		if i := strings.IndexByte(escapeLetters, r.text[r.at+1]); i >= 0 {
			r.at += 2
			return rune(escapeMeanings[i])
		}
	}
	unit, ok := r.unit(r.at)
	if !ok {
		r.refuse("not an escape")
	}
	r.at += 6
	if low, ok := r.unit(r.at); ok && utf16.DecodeRune(unit, low) != utf8.RuneError {
		r.at += 6
		return utf16.DecodeRune(unit, low)
	}
	return unit
}

// unit is the UTF-16 unit of a \uXXXX at a place.
func (r *reader) unit(at int) (rune, bool) {
	if len(r.text) < at+6 || r.text[at:at+2] != `\u` {
		return 0, false
	}
	unit, err := strconv.ParseUint(r.text[at+2:at+6], 16, 16)
	return rune(unit), err == nil
}

func (r *reader) number() any {
	match := number.FindStringSubmatch(r.text[r.at:])
	if match == nil {
		r.refuse("no value")
	}
	token := match[0]
	r.at += len(token)
	if match[1] != "" || match[2] != "" {
		value, err := strconv.ParseFloat(token, 64)
		if err != nil {
			r.refuse("a float beyond binary64")
		}
		return value
	}
	if len(strings.TrimPrefix(token, "-")) > maxDigits {
		r.refuse("an integer of too many digits")
	}
	if token == "-0" {
		token = "0"
	}
	return Integer(token)
}

// Canonicalize goes from JSON text to canonical bytes; maxBytes bounds those of the record profile.
func Canonicalize(data []byte, profile Profile, maxBytes int) ([]byte, error) {
	value, err := Read(data, profile)
	if err != nil {
		return nil, err
	}
	return Write(value, profile, maxBytes)
}

// Write makes the canonical bytes of a value as Read gives it.
func Write(value any, profile Profile, maxBytes int) (canonical []byte, err error) {
	defer catch(&err)
	w := writer{profile: profile}
	w.value(value, 0)
	if profile == Record && w.out.Len() > maxBytes {
		return nil, errors.New("too many bytes")
	}
	return w.out.Bytes(), nil
}

type writer struct {
	profile Profile
	items   int
	out     bytes.Buffer
}

func (w *writer) refuseIf(wrong bool, what string) {
	if wrong {
		panic(refused{errors.New(what)})
	}
}

func (w *writer) value(value any, depth int) {
	w.items++
	w.refuseIf(depth > w.profile.maxDepth(), "nested too deep")
	w.refuseIf(w.profile == Record && w.items > maxItems, "too many values")
	switch value := value.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		w.out.WriteString(strconv.FormatBool(value))
	case Integer:
		_, err := strconv.ParseInt(string(value), 10, 64)
		w.refuseIf(w.profile == Record && err != nil, "an integer beyond 64 bits")
		w.out.WriteString(string(value))
	case float64:
		w.refuseIf(w.profile == Record || math.IsInf(value, 0) || math.IsNaN(value), "a float that has no form")
		w.out.WriteString(float(value))
	case Text:
		w.string(value)
	case []any:
		w.out.WriteByte('[')
		for i, item := range value {
			w.commaAfter(i)
			w.value(item, depth+1)
		}
		w.out.WriteByte(']')
	case Object:
		w.out.WriteByte('{')
		for i, member := range value {
			w.commaAfter(i)
			w.string(member.Name)
			w.out.WriteByte(':')
			w.value(member.Value, depth+1)
		}
		w.out.WriteByte('}')
	default:
		w.refuseIf(true, fmt.Sprintf("no form for a %T", value))
	}
}

func (w *writer) commaAfter(count int) {
	if count > 0 {
		w.out.WriteByte(',')
	}
}

func (w *writer) string(text Text) {
	w.out.WriteByte('"')
	for _, c := range text {
		letter := strings.IndexRune(escapeMeanings, c)
		switch {
		case letter >= 0 && c != '/':
			w.out.WriteByte('\\')
			w.out.WriteByte(escapeLetters[letter])
		case c < 0x20 || w.profile == Evidence && 0x7f <= c && c < 0x10000:
			fmt.Fprintf(&w.out, `\u%04x`, c)
		case w.profile == Evidence && c >= 0x10000:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, high, low)
		default:
			w.refuseIf(utf16.IsSurrogate(c), "a lone surrogate")
			w.out.WriteRune(c)
		}
	}
	w.out.WriteByte('"')
}

// float lays out the shortest digits that read back as Python's repr does.
func float(value float64) string {
	mantissa, power, _ := strings.Cut(strconv.FormatFloat(value, 'e', -1, 64), "e") // d.ddd e ±dd
	exponent, _ := strconv.Atoi(power)
	if exponent < -4 || exponent >= 16 {
		return fmt.Sprintf("%se%+03d", mantissa, exponent)
	}
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// WellFormed says whether no text in a value has a lone surrogate: no record may, though the evidence profile has bytes for one.
func WellFormed(value any) bool {
	switch value := value.(type) {
	case Text:
		return !slices.ContainsFunc(value, utf16.IsSurrogate)
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool { return !WellFormed(item) })
	case Object:
		return !slices.ContainsFunc(value, func(member Member) bool {
			return !WellFormed(member.Name) || !WellFormed(member.Value)
		})
	}
	return true
}

// SHA256 in lower-case hex: over the bytes of the record profile it is the digest of a record.
func SHA256(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// ContentID is PREFIX@sha256:HEX over canonical bytes of the evidence profile.
func ContentID(prefix string, canonical []byte) string {
	return prefix + "@sha256:" + SHA256(canonical)
}
