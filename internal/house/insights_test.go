package house_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// platform has lines that Lambda and its runtime for Go write beside ours: of a call that ran out of time, and of an error.
const platform = `{"time":"t","type":"platform.report","record":{"requestId":"r","status":"timeout"}}
{"timestamp":"t","level":"INFO","message":"{\"errorMessage\":\"x\",\"errorType\":\"errorString\"}"}`

var logs = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$`)

// logged returns the lines that functions write, by log group: one of each call of a logger in their code, with its message
// and its keys, as Lambda's handler writes it; of metrics; and those of Lambda, of API Gateway and of operators.
func logged(t *testing.T) map[string][]node {
	t.Helper()
	var out bytes.Buffer
	handler := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: lambdacontext.ReplaceAttr}))
	lines := map[string][]node{}
	add := func(text string, groups ...string) {
		for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
			line := node{"@logStream": "2026/11/28/send-payment[7]", "@timestamp": "t"}
			must.OK(t, decoder.Decode(&line))
			for _, group := range groups {
				lines[group] = append(lines[group], line)
			}
		}
	}
	for path, text := range files(t) {
		ours := regexp.MustCompile(`^(functions|internal/(aws|api|deployment|evm|merchants|payments))/.*\.go$`).MatchString(path)
		if !ours || strings.HasSuffix(path, "_test.go") {
			continue
		}
		groups := []string{"Requests", "Settlement", "Delivery"}
		if strings.Contains(path, "/settlement/") {
			groups = groups[1:2]
		} else if strings.Contains(path, "/httpapi/") {
			groups = groups[:1]
		}
		ast.Inspect(must.Get(parser.ParseFile(token.NewFileSet(), path, text, 0))(t), func(n ast.Node) bool {
			call, _ := n.(*ast.CallExpr)
			if call == nil {
				return true
			}
			var words []any
			ast.Inspect(call, func(n ast.Node) bool {
				if word, is := n.(*ast.BasicLit); is && word.Kind == token.STRING {
					words = append(words, must.Get(strconv.Unquote(word.Value))(t))
				}
				return true
			})
			switch f, _ := call.Fun.(*ast.SelectorExpr); {
			case f == nil || len(words) == 0:
			case logs.MatchString(f.Sel.Name):
				out.Reset()
				level := map[byte]slog.Level{'D': slog.LevelDebug, 'W': slog.LevelWarn, 'E': slog.LevelError}[f.Sel.Name[0]]
				var pairs []any
				for _, key := range words[1:] {
					pairs = append(pairs, key, "x")
				}
				handler.Log(t.Context(), level, words[0].(string), append(pairs, "request_id", "x")...)
				add(out.String(), groups...)
			case f.Sel.Name == "Add" && regexp.MustCompile(`^[A-Z]\w+$`).MatchString(words[0].(string)):
				add(`{"`+words[0].(string)+`":1}`, groups...)
			}
			return true
		})
	}
	add(platform, "Requests", "Settlement", "Delivery")
	access := at[string](readTemplate(t), "Resources.Api.Properties.AccessLogSetting.Format")
	add(strings.Replace(access, "$context.status", "503", 1), "Api")
	add(string(must.Get(json.Marshal(store.Act{Command: "recover --yes"}))(t)), "Audit")
	return lines
}

var (
	query = regexp.MustCompile("`insights ([A-Z][a-z]+) 'filter ([^|]+?) \\| (?:fields|stats count\\(\\*\\) by) ([^|']+)'`")
	term  = regexp.MustCompile(`^(?:ispresent\((\S+)\)|(\S+) (?:= "(.*)"|like /(.*)/|in \["(.*)"\]))$`)
)

// TestAlarmPagesHaveQueries: each page has one query of Logs Insights, of a log group of the stack, that finds lines of the
// functions, and for each of its conditions and fields one that has it.
func TestAlarmPagesHaveQueries(t *testing.T) {
	lines := logged(t)
	for _, page := range names(t, "docs/alarms/*Alarm.md") {
		all := query.FindAllStringSubmatch(string(files(t)["docs/alarms/"+page+".md"]), -1)
		if len(all) != 1 || at[any](readTemplate(t), "Resources."+all[0][1]+"LogGroup") == nil {
			t.Errorf("docs/alarms/%s.md has the queries %q, and should have one of a log group", page, all)
			continue
		}
		var found []node
		for _, condition := range strings.Split(all[0][2], " or ") {
			m := term.FindStringSubmatch(condition)
			if m == nil {
				t.Fatalf("%s: %s is not understood", page, condition)
			}
			values := strings.Split(m[5], `", "`)
			for _, want := range values {
				before := len(found)
				for _, line := range lines[all[0][1]] {
					v := at[string](line, m[2])
					if m[1] != "" && line[m[1]] != nil || v != "" && (v == m[3] || v == want) ||
						m[4] != "" && regexp.MustCompile(m[4]).MatchString(v) {
						found = append(found, line)
					}
				}
				if len(found) == before {
					t.Errorf("%s: no function writes a line with %s %s", page, condition, want)
				}
			}
		}
		for _, field := range strings.Split(all[0][3], ", ") {
			has := strings.HasPrefix(field, "bin(")
			for _, line := range found {
				has = has || line[field] != nil || at[any](line, field) != nil
			}
			if !has {
				t.Errorf("%s: no line that it finds has %s", page, field)
			}
		}
	}
}
