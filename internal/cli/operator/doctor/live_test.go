package doctor_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/doctor"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// recorded are functions by name, with :live or :aliases after it, as Lambda describes them.
type recorded map[string]map[string]any

func (c recorded) answer(r *http.Request, action, _ string) string {
	path := strings.Split(r.URL.Path, "/")
	switch {
	case action == "ListStackResources":
		return strings.ReplaceAll(operatortest.Resources("Send remit-Send", "List remit-List"), "<ResourceType>Send</ResourceType>",
			"<ResourceType>AWS::Lambda::Function</ResourceType>")
	case len(path) > 4 && path[2] == "functions":
		name := path[3]
		if path[4] == "aliases" {
			name += ":aliases"
		} else if q := r.URL.Query().Get("Qualifier"); q != "" {
			name += ":" + q
		}
		text, _ := json.Marshal(c[name])
		return string(text)
	}
	return ""
}

// TestDoctorComparesWhatRuns: the live version is compared with the deployed function, value by value.
func TestDoctorComparesWhatRuns(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(live, alias map[string]any, variables map[string]string)
		want   string
	}{
		{"all as deployed", func(_, _ map[string]any, _ map[string]string) {}, "1 functions run as deployed"},
		{"published with other parameters", func(live, _ map[string]any, v map[string]string) {
			v["MODE"], live["KMSKeyArn"], live["LoggingConfig"] = "live", "arn:key", map[string]string{"ApplicationLogLevel": "DEBUG"}
		}, `KMS key "arn:key", not "" (Send); MODE "live", not "test" (Send); log level "DEBUG", not "INFO" (Send)`},
		{"changed by hand", func(live, _ map[string]any, v map[string]string) {
			live["MemorySize"], live["Timeout"], v["TOKEN"] = 128, 3, "hidden"
			delete(v, "ARN")
		}, `ARN is not set (Send); TOKEN is set, and not deployed (Send); memory "128", not "512" (Send); timeout "3", not "29" (Send)`},
		{"another code", func(live, _ map[string]any, _ map[string]string) { live["CodeSha256"] = "2" }, "another code (Send)"},
		{"a canary", func(_, alias map[string]any, _ map[string]string) {
			alias["RoutingConfig"] = map[string]any{"AdditionalVersionWeights": map[string]float64{"5": 0.1}}
		}, "version 5 beside it for 10% of requests (Send)"},
	} {
		version := func(variables map[string]string) map[string]any {
			return map[string]any{"CodeSha256": "1", "MemorySize": 512, "Timeout": 29, "Environment": map[string]any{"Variables": variables},
				"LoggingConfig": map[string]string{"ApplicationLogLevel": "INFO"}}
		}
		deployed := map[string]string{"MODE": "test", "ARN": "arn:queue"}
		variables := maps.Clone(deployed)
		live, alias := version(variables), map[string]any{"Name": "live", "FunctionVersion": "4"}
		c.change(live, alias, variables)
		want := c.want
		if c.why != "all as deployed" {
			want = "BAD live versions differ from the deployment: " + want
		}
		functions := recorded{"remit-Send": version(deployed), "remit-Send:live": live, "remit-Send:aliases": {"Aliases": []any{alias}}}
		if diff := cmp.Diff(want, functions.examined(t)); diff != "" {
			t.Errorf("%s: %s", c.why, diff)
		}
	}
}

// examined returns the finding about live versions, after "BAD " if it is one.
func (c recorded) examined(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(&operatortest.Cloud{Answer: c.answer})
	defer server.Close()
	a := &deployed.Account{Stack: "remit", AWS: aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: aws.AnonymousCredentials{}}}
	var out bytes.Buffer
	tables := memory.NewPayments()
	d := &deployed.Deployment{Target: deployed.Target{Stack: "remit", JSON: true}, Platform: a, Account: a, ChainID: 84532, Mode: "test",
		Tables: deployed.Tables{Payments: tables, AuditLog: tables, Keys: new(memory.APIKeys)}, Out: &out}
	failed := new(doctor.Command).Run(t.Context(), d)
	var all []finding
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err, failed)
	}
	i := slices.IndexFunc(all, func(f finding) bool { return f.Check == "live versions" })
	if i < 0 {
		t.Fatalf("doctor does not compare live versions: %s", &out)
	}
	return map[bool]string{false: "BAD "}[all[i].OK] + all[i].Saw
}
