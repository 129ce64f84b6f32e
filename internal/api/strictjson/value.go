// Package strictjson reads one JSON value and refuses four faults that encoding/json lets pass: bad UTF-8, halves of
// surrogate pairs, names given twice, and text after the value. It keeps numbers as their literals, so that it rounds
// none. It knows nothing of fields, limits or HTTP.
package strictjson

// MaxDepth is the deepest level at which arrays and objects may nest; the outermost is at level 1.
const MaxDepth = 8

// A Kind is the type of a Value.
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

// A Member is one name of an object with its value.
type Member struct {
	Name  string
	Value Value
}

// Member returns the value of a name in v, and whether v has the name. The name
// must match exactly; a Value that is no Object has none.
func (v Value) Member(name string) (Value, bool) {
	for _, m := range v.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Value{}, false
}
