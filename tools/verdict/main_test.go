package main

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestVerdict: a row has its events, each an action, a test (- for the package), and the output; all, with a machine's
// want of the race detector, for make test-all; whether the run fails; and a part of the print. A skip says its output first.
func TestVerdict(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		var events, out strings.Builder
		for text := range strings.SplitSeq(c.In[0], "; ") {
			words := append(strings.SplitN(text, " ", 3), "", "")
			e := event{Action: words[0], Package: "p", Test: strings.Trim(words[1], "-"), Output: words[2], Elapsed: 0.5}
			switch e.Action {
			case "attr":
				e.Key, e.Value, _ = strings.Cut(e.Output, "=")
			case "unbuilt":
				e.Action, e.FailedBuild = "fail", "p"
			}
			if said := e; e.Action == "skip" && e.Output != "" {
				said.Action, said.Output = "output", "    a_test.go:3: "+e.Output+"\n"
				must.OK(t, json.NewEncoder(&events).Encode(said))
			}
			must.OK(t, json.NewEncoder(&events).Encode(e))
		}
		all, noRace, _ := strings.Cut(c.In[1], ", no ")
		tally := newTally(&out)
		err := cmp.Or(tally.read(strings.NewReader(events.String())), tally.end(all == "all", noRace))
		said := out.String()
		if ok := err == nil; ok != (c.In[2] == "passes") || !strings.Contains(said, c.Want) || !strings.HasSuffix(said, " failed\n") {
			t.Errorf("%v, printed:\n%swant:\n%s", err, said, c.Want)
		}
	})
}
