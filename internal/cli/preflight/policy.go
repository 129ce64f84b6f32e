package preflight

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A policy is the document of a resource's policy. It keeps unknown fields.
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

// A verdict is whether a policy allows an action.
type verdict int

const (
	no verdict = iota
	unclear
	yes
)

// A caller is who would use a resource, and the context keys of its requests that are known.
type caller struct {
	service  string // or else the stack's roles
	account  string
	resource string
	context  map[string]string // by lower-case key
}

// judge returns the verdict on an action, and which statement is unclear. A statement that
// denies is: only its author knows what it is for.
func (p policy) judge(c caller, action string) (best verdict, why string) {
	limit := yes
	for i, s := range list(p["Statement"]) {
		s, _ := s.(map[string]any)
		name := fmt.Sprintf("statement %d (%v)", i+1, s["Sid"])
		switch applies, condition := c.meets(s, action); {
		case applies == no:
		case s["Effect"] == "Deny":
			limit, why = unclear, name+" may deny it"
		case applies == unclear:
			best, why = max(best, unclear), name+" depends on "+condition
		default:
			best = yes
		}
	}
	return min(best, limit), why
}

// meets reports whether a statement covers c's action, and which condition is unclear.
func (c caller) meets(s map[string]any, action string) (v verdict, condition string) {
	if !c.named(s) || s["NotAction"] != nil && matches(s["NotAction"], action) || s["Action"] != nil && !matches(s["Action"], action) ||
		s["NotResource"] != nil && matches(s["NotResource"], c.resource) || s["Resource"] != nil && !matches(s["Resource"], c.resource) {
		return no, ""
	}
	v = yes
	conditions, _ := s["Condition"].(map[string]any)
	for operator, keys := range conditions {
		keys, _ := keys.(map[string]any)
		for key, values := range keys {
			held := c.holds(operator, key, values)
			if v = min(v, held); held == unclear {
				condition = key
			}
		}
	}
	return v, condition
}

// named reports whether c may be a principal of a statement. The stack's roles are where the
// account is.
func (c caller) named(s map[string]any) bool {
	principal, _ := s["Principal"].(map[string]any)
	switch {
	case s["NotPrincipal"] != nil, s["Principal"] == "*", s["Effect"] == "Deny" && matches(principal["AWS"], "anybody"):
		return true
	case c.service != "":
		return slices.Contains(list(principal["Service"]), any(c.service))
	}
	return slices.ContainsFunc(list(principal["AWS"]), func(who any) bool {
		return who == "*" || who == c.account || strings.HasSuffix(fmt.Sprint(who), "::"+c.account+":root")
	})
}

// holds evaluates a condition.
func (c caller) holds(operator, key string, values any) verdict {
	value, known := c.context[strings.ToLower(key)]
	operator = strings.TrimSuffix(operator, "IfExists")
	switch {
	case !known || !slices.Contains([]string{"StringEquals", "StringLike", "ArnLike", "ArnEquals", "Bool"}, operator):
		return unclear
	case matches(values, value):
		return yes
	}
	return no
}

// matches reports whether one of a policy's patterns, in which * is any text, covers a text.
func matches(patterns any, text string) bool {
	return slices.ContainsFunc(list(patterns), func(p any) bool {
		quoted := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(fmt.Sprint(p)))
		return regexp.MustCompile("(?is)^" + quoted + "$").MatchString(text)
	})
}

// list returns v, or the list of v alone.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}
