package httpapi

import "strings"

// An invalid is one fault of a request. Its text never quotes the request.
type invalid struct {
	Type string `json:"type"` // a stable word, listed in openapi.yaml
	Loc  []any  `json:"loc"`  // "body", "query", "path" or "header", then where in it
	Msg  string `json:"msg"`
}

// invalids are all faults of a request, in the order of its parts: a 422 in the shape of FastAPI's.
type invalids []invalid

func (l invalids) Error() string {
	var types []string
	for _, i := range l {
		types = append(types, i.Type)
	}
	return "invalid request: " + strings.Join(types, ", ")
}

func (l invalids) orNil() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

func (l *invalids) add(kind, msg string, loc ...any) {
	*l = append(*l, invalid{kind, loc, msg})
}
