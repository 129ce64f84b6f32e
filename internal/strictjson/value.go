// Package strictjson reads one JSON value and refuses what encoding/json lets
// pass: bad UTF-8, halves of surrogate pairs, names given twice, anything
// after the value. Numbers are kept as the literals they were written as, so
// nothing is rounded. It knows nothing of fields, limits or HTTP.
package strictjson

// MaxDepth is how deep values may nest: the outermost object is 1.
const MaxDepth = 8

// A Kind says what a Value is.
type Kind uint8

// The kinds of JSON values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// A Value is one JSON value. The zero Value is null.
type Value struct {
	Kind    Kind
	Bool    bool     // of a Bool
	Text    string   // a String's characters; a Number's literal, as written
	Items   []Value  // of an Array
	Members []Member // of an Object, in their order; no name twice
}

// A Member is one name of an object and what it stands for.
type Member struct {
	Name  string
	Value Value
}

// Member returns what name stands for in v and whether it is there. The name
// must match exactly; a Value that is no Object has none.
func (v Value) Member(name string) (Value, bool) {
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Value{}, false
}
