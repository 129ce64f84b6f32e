package preflight_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/preflight"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// TestNodes: a live stack with fewer than three nodes gets a warning, unless it confirms without
// silent nodes. So does a token that pays gas and refuses payments' ids, if it can be tried.
func TestNodes(t *testing.T) {
	const gas = `"result":"0xc350"`
	strict := operatortest.Node{"eth_estimateGas": gas, "eth_estimateGas of 178": `"error":{"code":3,"message":"execution reverted"}`}
	url := func(faults operatortest.Node) string {
		faults = operatortest.WellNode(faults)
		faults["eth_chainId"] = `"result":"0x4cef52"`
		server := httptest.NewServer(faults)
		t.Cleanup(server.Close)
		return strconv.Quote(server.URL)
	}
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
		"a strict token":            {"Mode=test ChainId=5042002", url(strict), "\nWARN memo: the token takes no payment's id after"},
		"one that takes it":         {"Mode=test ChainId=5042002", url(operatortest.Node{"eth_estimateGas": gas}), ""},
		"one that takes neither":    {"Mode=test ChainId=5042002", url(nil), "\nWARN memo: not tried ("},
		"one without nodes":         {"Mode=test ChainId=5042002", "", "\nWARN memo: not tried ("},
		"one that is not the gas":   {"Mode=test ChainId=84532", url(strict), ""},
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
			said := strings.Contains(out.String(), "WARN nodes") || strings.Contains(out.String(), "WARN memo")
			if said != (test.want != "") || !strings.Contains(out.String(), test.want) {
				t.Errorf("%s\nwant %q", &out, test.want)
			}
		})
	}
}
