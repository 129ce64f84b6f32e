package preflight_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/preflight"
)

// TestNodes: a live stack with fewer than three nodes gets a warning, unless it confirms without
// silent nodes.
func TestNodes(t *testing.T) {
	for why, test := range map[string]struct {
		parameters, urls, want string // urls are those of the secret; "": it has no value
	}{
		"two":                       {"Mode=live", `"https://a","https://b"`, "\nWARN nodes: there are 2; "},
		"three":                     {"Mode=live", `"https://a","https://b","https://c"`, ""},
		"strict by name":            {"Mode=live Quorum=strict", `"https://a"`, "\nWARN nodes: there are 1; "},
		"no value":                  {"Mode=live", "", "\nWARN nodes: their list cannot be read"},
		"a secret of one's own":     {"Mode=live ExistingRpcSecret=mine", `"https://a"`, "\nWARN nodes: there are 1; "},
		"a stack that is not there": {"Mode=live", "", "\nWARN nodes: the stack has no list"},
		"answering":                 {"Mode=live Quorum=answering", `"https://a"`, ""},
		"test mode":                 {"Mode=test", `"https://a"`, ""},
	} {
		t.Run(why, func(t *testing.T) {
			own := strings.Contains(test.parameters, "mine")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				body := r.Header.Get("X-Amz-Target") + string(text)
				switch {
				case strings.Contains(body, "GetCallerIdentity"):
					_, _ = io.WriteString(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/ada</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
				case strings.Contains(body, "DescribeStackResource&") && !own && !strings.Contains(test.want, "has no list"):
					_, _ = io.WriteString(w, "<DescribeStackResourceResponse><DescribeStackResourceResult><StackResourceDetail><PhysicalResourceId>theirs</PhysicalResourceId></StackResourceDetail></DescribeStackResourceResult></DescribeStackResourceResponse>")
				case strings.Contains(body, "GetSecretValue") && test.urls != "" && strings.Contains(body, "mine") == own:
					_, _ = fmt.Fprintf(w, `{"SecretString":%q}`, `{"urls":[`+test.urls+`]}`)
				default:
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, "<ErrorResponse><Error><Code>ValidationError</Code></Error></ErrorResponse>")
				}
			}))
			defer server.Close()
			for name, value := range map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "remit", "AWS_SECRET_ACCESS_KEY": "remit",
				"AWS_ENDPOINT_URL": server.URL} {
				t.Setenv(name, value)
			}
			var out bytes.Buffer
			_ = (&preflight.Command{Stack: "remit", Template: "../../../template.yaml",
				Parameters: strings.Fields(test.parameters)}).Run(t.Context(), &out)
			if said := strings.Contains(out.String(), "WARN nodes"); said != (test.want != "") || !strings.Contains(out.String(), test.want) {
				t.Errorf("%s\nwant %q", &out, test.want)
			}
		})
	}
}
