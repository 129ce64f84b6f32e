package page

import (
	"bytes"
	"encoding/json"
	"slices"
)

// itemized are the parts of an update of which a browser is told single items. Of a
// payment it keeps the newest Listed; the others only get longer at their ends.
var itemized = []string{"payments", "lines", "arrivals"}

// Told is what one browser was told last, by the names of parts. It holds what the
// page lists, however many payments there are.
type Told map[string]told

type told struct {
	whole json.RawMessage
	items []json.RawMessage
}

// News returns what a browser does not know yet of an update: the parts that have
// changed, and of lists the items that are new or have changed. It returns nil if there
// is nothing.
func (t Told) News(update any) ([]byte, error) {
	text, err := json.Marshal(update)
	if err != nil {
		return nil, err
	}
	var now map[string]json.RawMessage
	if err := json.Unmarshal(text, &now); err != nil {
		return nil, err
	}
	news := map[string]any{}
	for name, whole := range now {
		before, known := t[name]
		if known && bytes.Equal(before.whole, whole) {
			continue
		}
		next := told{whole: whole}
		news[name] = whole
		if slices.Contains(itemized, name) {
			if err := json.Unmarshal(whole, &next.items); err != nil {
				return nil, err
			}
			old := make(map[string]bool, len(before.items))
			for _, item := range before.items {
				old[string(item)] = true
			}
			news[name] = slices.DeleteFunc(slices.Clone(next.items), func(item json.RawMessage) bool { return old[string(item)] })
		}
		t[name] = next
	}
	if len(news) == 0 {
		return nil, nil
	}
	return json.Marshal(news)
}
