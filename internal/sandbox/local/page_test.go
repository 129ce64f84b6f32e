package local_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

// TestThePageIsForThisMachineOnly: a page of the web cannot press the buttons or read what the page shows, by its own
// name for loopback or from its own origin. A client without server-sent events gets the page like any other.
func TestThePageIsForThisMachineOnly(t *testing.T) {
	api, _ := localtest.Stack(t)
	own := strings.TrimPrefix(api.URL, "http://")
	_, port, _ := strings.Cut(own, ":")
	words := map[string]string{"own": own, "port": port, "json": "Content-Type: application/json\r\n",
		"payment": `{"do":"pay","to":"0x2222222222222222222222222222222222222222","amount":"1","key":"k"}`}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		line, host, header, text := c.In[0], c.In[1], c.In[2], c.In[3]
		answer, body := raw(t, api, fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", line,
			host, len(text), header, text))
		policy := answer.Header.Get("Content-Security-Policy")
		if fmt.Sprint(answer.StatusCode) != c.Want || answer.Header.Get("Access-Control-Allow-Origin") != "" ||
			!strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") ||
			answer.StatusCode != 200 && !strings.Contains(body, `"code":"page_refused"`) {
			t.Errorf("answered %s %v %s", answer.Status, answer.Header, body)
		}
	})
}
