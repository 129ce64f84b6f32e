package payment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// CSV writes rows as CSV, after a header row of field names if header is true. The fields are T's JSON fields, in their
// order: a text as it is, null as an empty cell, and a list or an object as JSON without blanks. Lines end in CRLF. An
// apostrophe precedes a cell that a spreadsheet would take for a formula; one with a semicolon, a tab or another
// control character is quoted, since some spreadsheets divide lines there.
func CSV[T any](w io.Writer, header bool, rows ...T) error {
	var text bytes.Buffer
	line := func(cells []string) {
		for i, c := range cells {
			if strings.ContainsFunc(c, func(r rune) bool { return strings.ContainsRune(`,;"`, r) || unicode.IsControl(r) }) {
				cells[i] = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
			}
		}
		text.WriteString(strings.Join(cells, ",") + "\r\n")
	}
	if header {
		var none T
		names, _ := fields(none)
		line(names)
	}
	for _, row := range rows {
		_, cells := fields(row)
		line(cells)
	}
	_, err := w.Write(text.Bytes())
	return err
}

func fields(v any) (names, cells []string) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // rows of ours always become JSON
	dec := json.NewDecoder(&text)
	_, _ = dec.Token() // the brace
	for dec.More() {
		name, _ := dec.Token()
		var value json.RawMessage
		_ = dec.Decode(&value)
		names, cells = append(names, fmt.Sprint(name)), append(cells, cell(value))
	}
	return names, cells
}

func cell(value json.RawMessage) string {
	if string(value) == "null" {
		return ""
	}
	text := string(value)
	_ = json.Unmarshal(value, &text) // stays as it is unless it is text
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
