package payment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// CSV writes rows as CSV, after a header row of field names if header is true. The fields are T's
// JSON fields, in their order: a text as it is, null as an empty cell, and a list or an object as
// JSON. An apostrophe precedes a cell that a spreadsheet would take for a formula.
func CSV[T any](w io.Writer, header bool, rows ...T) error {
	out := csv.NewWriter(w)
	if header {
		var none T
		names, _ := fields(none)
		_ = out.Write(names) // an error stays until Error
	}
	for _, row := range rows {
		_, cells := fields(row)
		_ = out.Write(cells)
	}
	out.Flush()
	return out.Error()
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
