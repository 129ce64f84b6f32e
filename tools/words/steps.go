package main

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// advised are the directories whose errors the users of remit read.
var advised = []string{"cmd/remit/", "internal/cli/", "internal/deployment/settings/", "internal/deployment/stack/"}

// exempt has the directories and the messages that need no next step of their own, and why.
var exempt = map[string]string{
	"internal/cli/client/":                  "the command adds the step",
	"internal/sandbox/local/docs.go": "only a change to openapi.yaml fails there",
	"internal/sandbox/local/localtest/":     "for tests",
	"internal/sandbox/local/sandbox/":       "shown on a page, beside the buttons",
	"internal/cli/operator/advice.go":       "it adds the steps",
	"internal/cli/operator/check/":          "each finding is printed with its fix",
	"smoke test failed":                     "the failed step follows",
	"nothing was changed":                   "the reason follows",
	"the key is stored already":             "no user sees it",
	"there is no contract":                  "remit batch adds the step",
	"%s: %w at %s":                          "remit batch adds the step",
	"the secret has no value yet":           "its reader adds the step",
	"the stored settings are damaged":       "remit settings adds the step",
	"the stored settings need newer code":   "remit settings adds the step",
	"%w: version %d needs %d, this is %d":   "remit settings adds the step",
	"%s is missing":                         "a part of damaged settings",
	"there are %d settings, not %d":         "a part of damaged settings",
	"the version is missing":                "a part of damaged settings",
	"…":                                     "an error that a process has sent, with its step",
}

// next matches a next step: an instruction at the start of a clause.
var next = regexp.MustCompile(`(?:^|[;:,] |[(\n])(?:add|answer|change|check|choose|compare|correct|deploy|do not pay|find|give|import|make|` +
	`move|name|open|put|raise|read|register|remove|report|run|save|set|shorten|start|stop|try|use|wait|write)\b`)

// cause matches a message that ends with the error that it wraps, which has the step.
var cause = regexp.MustCompile(`%[wv]$`)

// steps returns the messages of a Go file's errors that end with neither a step nor a cause.
func steps(files *token.FileSet, name string, file *ast.File) (missing []string) {
	in := func(dir string) bool { return strings.HasPrefix(name, dir) }
	if !slices.ContainsFunc(advised, in) || strings.HasSuffix(name, "_test.go") ||
		slices.ContainsFunc(slices.Collect(maps.Keys(exempt)), in) {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if made, ok := call.Fun.(*ast.SelectorExpr); ok {
			from, _ := made.X.(*ast.Ident)
			text := literal(call.Args[0])
			_, known := exempt[text]
			if from != nil && (from.Name == "errors" && made.Sel.Name == "New" || from.Name == "fmt" && made.Sel.Name == "Errorf") &&
				!known && !next.MatchString(text) && !cause.MatchString(text) {
				missing = append(missing, files.Position(call.Pos()).String()+": "+text)
			}
		}
		return true
	})
	return missing
}

// literal returns the text of literals joined by +, with … for anything else.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return "…"
}
