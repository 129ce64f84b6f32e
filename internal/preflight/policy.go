package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A policy is the document of a resource's policy. It keeps what it does not know.
type policy map[string]any

func parsePolicy(text string) (p policy, err error) {
	if text == "" {
		return policy{"Version": "2012-10-17"}, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("reading a policy: %w", err)
	}
	return p, nil
}

// String returns the document for a single-quoted word of a shell.
func (p policy) String() string {
	text, _ := json.Marshal(p) // it was read from JSON
	return strings.ReplaceAll(string(text), "'", `\u0027`)
}

func (p policy) add(statement map[string]any) {
	p["Statement"] = append(list(p["Statement"]), statement)
}

// allows reports whether statements let a service do every one of actions. Conditions
// are taken to hold: they restrict whose alarm it is, which is ours.
func (p policy) allows(service string, actions ...string) bool {
	return !slices.ContainsFunc(actions, func(action string) bool {
		return !slices.ContainsFunc(list(p["Statement"]), func(s any) bool {
			statement, _ := s.(map[string]any)
			principal, _ := statement["Principal"].(map[string]any)
			return statement["Effect"] == "Allow" && slices.Contains(list(principal["Service"]), any(service)) &&
				slices.ContainsFunc(list(statement["Action"]), func(a any) bool { return covers(fmt.Sprint(a), action) })
		})
	})
}

// covers reports whether an action of a policy, which may end in *, covers another.
func covers(granted, wanted string) bool {
	granted, wanted = strings.ToLower(granted), strings.TrimSuffix(strings.ToLower(wanted), "*")
	prefix, any := strings.CutSuffix(granted, "*")
	return any && strings.HasPrefix(wanted, prefix) || granted == wanted
}

// list returns v, or the list of v alone.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	case []string:
		all := make([]any, len(v))
		for i, s := range v {
			all[i] = s
		}
		return all
	default:
		return []any{v}
	}
}
