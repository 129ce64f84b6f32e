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
	stack    string
	resource string
	context  map[string]string // by lower-case key; a value that ends in * is known so far
}

// judge returns the verdict on an action, and which statement is unclear or denies.
func (p policy) judge(c caller, action string) (best verdict, why string) {
	limit := yes
	for i, s := range list(p["Statement"]) {
		s, _ := s.(map[string]any)
		name := fmt.Sprintf("statement %d (%v)", i+1, s["Sid"])
		switch applies, condition := c.meets(s, action); {
		case applies == no:
		case s["Effect"] == "Deny" && applies == yes:
			return no, name + " denies it"
		case applies == unclear:
			why = name + " depends on " + condition
			if s["Effect"] == "Deny" {
				limit = unclear
			} else {
				best = max(best, unclear)
			}
		case s["Effect"] == "Allow":
			best = yes
		}
	}
	return min(best, limit), why
}

// undenied returns p without the statements that deny c an action.
func (p policy) undenied(c caller, actions []string) policy {
	kept := slices.DeleteFunc(slices.Clone(list(p["Statement"])), func(s any) bool {
		statement, _ := s.(map[string]any)
		return statement["Effect"] == "Deny" && slices.ContainsFunc(actions,
			func(a string) bool { applies, _ := c.meets(statement, a); return applies == yes })
	})
	return policy{"Version": "2012-10-17", "Statement": kept}
}

// meets reports whether a statement covers c's action, and which condition is unclear.
func (c caller) meets(s map[string]any, action string) (v verdict, condition string) {
	v = c.named(s)
	if s["NotAction"] != nil && matches(s["NotAction"], action) || s["Action"] != nil && !matches(s["Action"], action) ||
		s["NotResource"] != nil && matches(s["NotResource"], c.resource) || s["Resource"] != nil && !matches(s["Resource"], c.resource) {
		return no, ""
	}
	condition = "who it is about"
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

// named reports whether c is a principal of a statement. The stack's roles are where the
// account is, and may be where some of them are.
func (c caller) named(s map[string]any) verdict {
	if s["NotPrincipal"] != nil {
		return unclear
	}
	principal, _ := s["Principal"].(map[string]any)
	everybody := s["Principal"] == "*" || s["Effect"] == "Deny" && matches(principal["AWS"], "anybody")
	switch {
	case everybody, c.service != "" && slices.Contains(list(principal["Service"]), any(c.service)):
		return yes
	case c.service != "":
		return no
	}
	best := no
	for _, who := range list(principal["AWS"]) {
		switch who := fmt.Sprint(who); {
		case who == "*", who == c.account, strings.HasSuffix(who, "::"+c.account+":root"):
			best = yes
		case strings.Contains(who, "::"+c.account+":role/"+c.stack+"-"):
			best = max(best, unclear)
		}
	}
	return best
}

// holds evaluates a condition.
func (c caller) holds(operator, key string, values any) verdict {
	value, known := c.context[strings.ToLower(key)]
	operator = strings.TrimSuffix(operator, "IfExists")
	if !known || !slices.Contains([]string{"StringEquals", "StringLike", "ArnLike", "ArnEquals", "Bool"}, operator) {
		return unclear
	}
	start, partly := strings.CutSuffix(value, "*")
	switch {
	case matches(values, value), partly && matches(values, start+"any"):
		return yes
	case partly && slices.ContainsFunc(list(values), func(v any) bool {
		fixed, _, _ := strings.Cut(fmt.Sprint(v), "*")
		return strings.HasPrefix(start, fixed) || strings.HasPrefix(fixed, start)
	}):
		return unclear
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
