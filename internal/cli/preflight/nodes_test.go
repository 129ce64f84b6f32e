package preflight_test

import (
	"strings"
	"testing"
)

// TestNodes: a live stack with fewer than three nodes gets a warning, unless it confirms without
// silent nodes.
func TestNodes(t *testing.T) {
	for why, test := range map[string]struct {
		parameters, urls, want string // urls are those of the secret; "": it has no value
	}{
		"two":                       {"Mode=live", `"https://a","https://b"`, "there are 2; "},
		"three":                     {"Mode=live", `"https://a","https://b","https://c"`, ""},
		"strict by name":            {"Mode=live Quorum=strict", `"https://a"`, "there are 1; "},
		"no value":                  {"Mode=live", "", "their list cannot be read"},
		"a secret of one's own":     {"Mode=live ExistingRpcSecret=mine", `"https://a"`, "there are 1; "},
		"a stack that is not there": {"Mode=live", "", "the stack has no list"},
		"answering":                 {"Mode=live Quorum=answering", `"https://a"`, ""},
		"test mode":                 {"Mode=test", `"https://a"`, ""},
	} {
		t.Run(why, func(t *testing.T) {
			a := newAccount(t)
			a.samconfig += " " + test.parameters
			if a.stack = "UPDATE_COMPLETE"; strings.Contains(test.want, "has no list") {
				a.stack = ""
			}
			if name := map[bool]string{true: "mine", false: "theirs"}[strings.Contains(test.parameters, "mine")]; test.urls != "" {
				a.secrets = map[string]string{name: `{"urls":[` + test.urls + `]}`}
			}
			found, _, _ := a.fly()
			if why, warned := found["WARN nodes"]; warned != (test.want != "") || !strings.HasPrefix(why, test.want) {
				t.Errorf("%q, want %q", why, test.want)
			}
		})
	}
}
