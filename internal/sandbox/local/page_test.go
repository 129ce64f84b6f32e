package local_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

// TestThePageIsForThisMachineOnly: a page of the web cannot press the buttons or read what the page shows, by its own
// name for loopback or from its own origin. A client without server-sent events gets the page like any other.
func TestThePageIsForThisMachineOnly(t *testing.T) {
	api, _ := localtest.Stack(t)
	own := strings.TrimPrefix(api.URL, "http://")
	_, port, _ := strings.Cut(own, ":")
	pay := `{"do":"pay","to":"0x2222222222222222222222222222222222222222","amount":"1","key":"k"}`
	const json = "Content-Type: application/json\r\n"
	for _, row := range []struct {
		name, line, host, header, body string
		status                         int
	}{
		{"the page itself", "GET /", own, "", "", 200},
		{"by the name localhost", "GET /", "localhost:" + port, "Sec-Fetch-Site: none\r\n", "", 200},
		{"a link on another site", "GET /", own, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", "", 200},
		{"a button", "POST /page/do", own, json + "Origin: http://" + own + "\r\nSec-Fetch-Site: same-origin\r\n", pay, 200},
		{"a command line", "POST /page/do", own, json, pay, 200},
		{"another origin", "POST /page/do", own, json + "Origin: https://evil.example\r\n", pay, 403},
		{"another port of this machine", "POST /page/do", own, json + "Origin: http://127.0.0.1:1\r\n", pay, 403},
		{"an origin that is hidden", "POST /page/do", own, json + "Origin: null\r\n", pay, 403},
		{"another site, by what the browser says", "POST /page/do", own, json + "Sec-Fetch-Site: cross-site\r\n", pay, 403},
		{"a form, which browsers send without asking", "POST /page/do", own, "Content-Type: text/plain\r\n", pay, 403},
		{"no type at all", "POST /page/do", own, "", pay, 403},
		{"a name that was resolved to loopback", "GET /page/facts", "evil.example:" + port, "", "", 403},
		{"loopback at another port", "GET /page/facts", "127.0.0.1:1", "", "", 403},
		{"an address that is not loopback", "GET /", "192.0.2.1:" + port, "", "", 403},
		{"the stream from another site", "GET /page/events", own, "Sec-Fetch-Site: cross-site\r\n", "", 403},
		{"the stream as an image of another site", "GET /page/events", own, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", "",
			403},
		{"an unknown button", "POST /page/do", own, json, `{"do":"dance"}`, 422},
		{"an unknown field", "POST /page/do", own, json, `{"do":"mend","now":true}`, 422},
		{"an amount that is none", "POST /page/do", own, json, strings.Replace(pay, `"1"`, `"1.5"`, 1), 422},
		{"no key", "POST /page/do", own, json, strings.Replace(pay, `"k"`, `""`, 1), 422},
		{"too many at once", "POST /page/do", own, json, strings.Replace(pay, `"do"`, `"times":51,"do"`, 1), 422},
		{"nothing to break", "POST /page/do", own, json, `{"do":"break","fault":"everything"}`, 422},
		{"too deep", "POST /page/do", own, json, `{"do":"break","fault":"reorg","depth":6}`, 422},
		{"no such payment", "GET /page/payment?find=x", own, "", "", 404},
	} {
		answer, body := raw(t, api, fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", row.line,
			row.host, len(row.body), row.header, row.body))
		policy := answer.Header.Get("Content-Security-Policy")
		if answer.StatusCode != row.status || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") ||
			answer.StatusCode != 200 && !strings.Contains(body, `"code":"page_refused"`) {
			t.Errorf("%s: answered %s %s, policy %q", row.name, answer.Status, body, policy)
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: another origin may read the answer", row.name)
		}
	}
}
