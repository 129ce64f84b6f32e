package house_test

import (
	"regexp"
	"strings"
	"testing"
)

// platform has the words of lines that Lambda, its runtime for Go and Logs Insights write beside ours.
const platform = `"record":{"status":"timeout"} "message":"{\"errorMessage\":\"x\"}" @timestamp @logStream bin(1m) level "ERROR" err`

var (
	query = regexp.MustCompile("`insights ([A-Z][a-z]+) 'filter ([^|]+?) \\| (?:fields|stats count\\(\\*\\) by) ([^|']+)'`")
	term  = regexp.MustCompile(`^(?:ispresent\((\S+)\)|(\S+) (?:= "(.*)"|like /\^?(.*)/|in \["(.*)"\]))$`)
)

// TestAlarmPagesHaveQueries: each page has one query of Logs Insights, of a log group of the stack, whose fields and
// values are words of the functions' code, of the access log, or of lines that Lambda writes.
func TestAlarmPagesHaveQueries(t *testing.T) {
	code := platform + at[string](readTemplate(t), "Resources.Api.Properties.AccessLogSetting.Format")
	product := regexp.MustCompile(`^(functions|internal/(aws|api|deployment|evm|merchants|payments))/.*\.go$`)
	for path, text := range files(t) {
		if product.MatchString(path) && !strings.HasSuffix(path, "_test.go") {
			code += string(text)
		}
	}
	for _, page := range names(t, "docs/alarms/*Alarm.md") {
		all := query.FindAllStringSubmatch(string(files(t)["docs/alarms/"+page+".md"]), -1)
		if len(all) != 1 || at[any](readTemplate(t), "Resources."+all[0][1]+"LogGroup") == nil {
			t.Errorf("docs/alarms/%s.md has the queries %q, and should have one of a log group", page, all)
			continue
		}
		fields, values := strings.Split(all[0][3], ", "), []string(nil)
		for _, condition := range strings.Split(all[0][2], " or ") {
			m := term.FindStringSubmatch(condition)
			if m == nil {
				t.Fatalf("%s: %s is not understood", page, condition)
			}
			fields = append(fields, m[1]+m[2])
			values = append(append(values, m[3]), strings.Split(m[5], `", "`)...)
			if !strings.Contains(code, m[4]) {
				t.Errorf("%s: no function writes %s", page, m[4])
			}
		}
		for _, field := range fields {
			name := field[strings.LastIndex(field, ".")+1:]
			if !regexp.MustCompile(`\b`+regexp.QuoteMeta(strings.TrimLeft(name, "@"))+`\b`).MatchString(code) && !strings.HasPrefix(name, "bin(") {
				t.Errorf("%s: no function writes the field %s", page, field)
			}
		}
		for _, value := range values {
			if value != "" && !strings.Contains(code, `"`+value+`"`) {
				t.Errorf("%s: no function writes %q", page, value)
			}
		}
	}
}
