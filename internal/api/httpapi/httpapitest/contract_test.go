package httpapitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/api/httpapi/httpapitest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

func TestContract(t *testing.T) {
	contract := must.Get(httpapitest.NewContract())(t)
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		method, path, _ := strings.Cut(c.In[0], " ")
		status := must.Get(strconv.Atoi(c.In[1]))(t)
		answer := &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(c.In[2])), Header: http.Header{
			"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {"r1"},
		}}
		for _, header := range c.In[3:] {
			if name, value, _ := strings.Cut(header, ": "); value == "(none)" {
				answer.Header.Del(name)
			} else {
				answer.Header.Set(name, value)
			}
		}
		err := contract.Check(httptest.NewRequest(method, path, nil), answer)
		if (err == nil) != (c.Want == "described") {
			t.Errorf("error = %v, want: %s", err, c.Want)
		}
	})
}
