package rollback_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/rollback"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestRollback runs the whole command against recorded answers, each after half a second: it
// puts back the versions before, of all functions of a release or of none.
func TestRollback(t *testing.T) {
	const all = "a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 l1 m1 n1 o1 p1 q1 r1 s1 t1 u1 v1 w1 x1"
	words := map[string]string{"release": "create a1 b1 c1; update a2 b2; ", "all": all, "all anew": strings.ReplaceAll(all, "1", "2")}
	faults := map[string]func(*released){
		"deployed meanwhile": func(r *released) { r.meanwhile = func() { r.runs["a"] = "3" } },
		"older settings":     func(r *released) { r.has["b:1"] = map[string]string{"READS": "0"} },
		"another table": func(r *released) {
			r.has["b:1"] = map[string]string{"READS": "1", "API_KEYS_TABLE": "keys", "PAYMENTS_TABLE": "before"}
		},
		"damaged settings":    func(r *released) { r.tables.SpoilSettings(settings.ErrDamaged) },
		"newer settings":      func(r *released) { r.tables.SpoilSettings(settings.ErrNewer) },
		"no settings of keys": func(r *released) { r.books = newReleased().books },
	}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		synctest.Test(t, func(t *testing.T) {
			r := newReleased()
			r.settle(t)
			steps := strings.Split(c.In[0], "; ")
			var err error
			for i, step := range steps {
				kind, versions, _ := strings.Cut(step, " ")
				if kind != "rollback" {
					r.deploys(kind, versions)
					continue
				}
				if r.asked = nil; i == len(steps)-1 {
					if set, known := faults[c.In[1]]; known {
						set(r)
					} else if action, fault, _ := strings.Cut(c.In[1], "="); action == "status" {
						r.status = fault
					} else {
						r.faults[action] = fault
					}
				}
				began := time.Now()
				if _, err = r.rollBack(t, true); time.Since(began) > 30*time.Second {
					t.Errorf("it took %s", time.Since(began))
				}
			}
			var runs []string
			for name, version := range r.runs {
				runs = append(runs, name+version)
			}
			slices.Sort(runs)
			slices.Sort(r.asked)
			if got, asked := strings.Join(runs, " "), strings.Join(r.asked, ","); got != c.In[2] || c.In[3] != "*" && asked != c.In[3] ||
				(err == nil) != (c.Want == "put back") || err != nil && !strings.Contains(err.Error(), c.Want) {
				t.Errorf("runs %s after %q, want %s after %q; error %v", got, asked, c.In[2], c.In[3], err)
			}
		})
	})
}

// TestRollbackIsAgreedTo: without consent nothing changes, and the answer names every alias.
func TestRollbackIsAgreedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReleased()
		r.settle(t)
		r.deploys("create", "a1 b1")
		r.deploys("update", "a2 b2")
		if _, err := r.rollBack(t, false); !errors.Is(err, change.ErrDeclined) || len(r.asked) > 0 {
			t.Errorf("without consent: %v, %v", err, r.asked)
		}
		r.faults["Updatealiases b"] = "fails"
		said, err := r.rollBack(t, true)
		if want := "a  2 -> 1  put back\nb  2 -> 1  not put back\n"; err == nil || !strings.HasPrefix(said, want) {
			t.Errorf("half of it: %v, %q, want %q", err, said, want)
		}
		clear(r.faults)
		said, err = r.rollBack(t, true)
		if want := "b  2 -> 1  put back\nDeploy the commit"; err != nil || !strings.HasPrefix(said, want) {
			t.Errorf("a second run: %v, %q, want %q", err, said, want)
		}
		r.deploys("open", "a3")
		said, err = r.rollBack(t, true)
		if want := "a  3 -> 1  put back\naws cloudformation wait stack-rollback-complete"; err != nil ||
			!strings.HasPrefix(said, want) {
			t.Errorf("an update: %v, %q, want %q", err, said, want)
		}
		acts, _ := r.tables.Acts(t.Context(), time.Time{})
		var outcomes []string
		for _, a := range acts {
			outcomes = append(outcomes, string(a.Outcome))
		}
		if got := strings.Join(outcomes, ","); got != "begun,unknown,begun,done,begun,done" {
			t.Errorf("the audit log has %s", got)
		}
	})
}

// settle stores settings.
func (r *released) settle(t *testing.T) {
	t.Helper()
	must.OK(t, errors.Join(r.tables.SetSettings(t.Context(), settings.Default()),
		r.books.SetKeySettings(t.Context(), settings.DefaultKeys(true))))
	r.slow = 500 * time.Millisecond
}

// rollBack runs the command as an operator does who types it.
func (r *released) rollBack(t *testing.T, yes bool) (string, error) {
	t.Helper()
	var out bytes.Buffer
	ctx := change.Recorded(t.Context(), []string{"rollback", "--stack", "remit"}, func(yes bool, _ string) error {
		if !yes {
			return fmt.Errorf("%w: add --yes", change.ErrDeclined)
		}
		if r.meanwhile != nil {
			r.meanwhile()
		}
		return nil
	})
	d := &deployed.Deployment{Target: deployed.Target{Stack: "remit"}, Platform: r, Account: r.Account, Mode: "live",
		Out: &out, Tables: deployed.Tables{Payments: r.tables, AuditLog: r.tables, Keys: r.books}}
	err := (&rollback.Command{Yes: yes}).Run(ctx, d)
	return out.String(), err
}
