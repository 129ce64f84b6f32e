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
)

// TestRollback runs the whole command against recorded answers, each after half a second: it
// puts back the versions before, of all functions of a release or of none.
func TestRollback(t *testing.T) {
	faults := func(action, fault string) func(*released) {
		return func(r *released) { r.faults[action] = fault }
	}
	status := func(status string) func(*released) { return func(r *released) { r.status = status } }
	none := func(*released) {}
	const all = "a1 b1 c1 d1 e1 f1 g1 h1 i1 j1 k1 l1 m1 n1 o1 p1 q1 r1 s1 t1 u1 v1 w1 x1"
	const release = "create a1 b1 c1; update a2 b2; "
	for _, c := range []struct {
		why   string
		steps string // deployments, and rollback
		set   func(*released)
		runs  string // in the end
		asked string // by the last rollback
		err   string
	}{
		{"two of three are of the release", release + "rollback", none, "a1 b1 c1", "a 1,b 1", ""},
		{"one was put back before", "create a1; update a2; rollback; update a3; rollback", none, "a1", "a 1", ""},
		{"twice", "create a1; update a2; rollback; update a3; rollback; update a4; rollback", none, "a1", "a 1", ""},
		{"a canary was undone before", "create a1; undone a2; update a3; rollback", none, "a1", "a 1", ""},
		{"the last deployment was undone", "create a1; update a2; undone a3; rollback", none, "a1", "a 1", ""},
		{"the last deployment changed no function", "create a1; update a2; update ; rollback", none, "a1", "a 1", ""},
		{"events of before are gone", "create a1; forgets a2; rollback", none, "a1", "a 1", ""},
		{"put back already", "create a1; update a2; rollback; rollback", none, "a1", "", "no function runs a version of the deployment"},
		{"a function of the release is new", "create a1; update a2; create b3; rollback", none, "a2 b3", "",
			"no record has a version of b before 3"},
		{"a first deployment that has not ended", "create a1; rollback", status("CREATE_IN_PROGRESS"), "a1", "", "without an older version"},
		{"one alias cannot be moved", release + "rollback", faults("Updatealiases a", "fails"), "a2 b1 c1", "b 1", "a is not put back"},
		{"an answer gets lost", release + "rollback", faults("Updatealiases a", "lost"), "a1 b1 c1", "a 1,b 1", ""},
		{"an alias never answers", release + "rollback", faults("Updatealiases a", "hangs"), "a2 b1 c1", "a 1,b 1", "run remit rollback again"},
		{"no alias answers", "create " + all + "; update " + strings.ReplaceAll(all, "1", "2") + "; rollback",
			faults("Updatealiases", "hangs"), strings.ReplaceAll(all, "1", "2"), "*", "q is unknown"},
		{"deployed meanwhile", release + "rollback", func(r *released) { r.meanwhile = func() { r.runs["a"] = "3" } }, "a3 b1 c1", "b 1",
			"a is not put back"},

		{"beside a canary", "create a1 b1; open a2 ~b2; rollback", none, "a1 b1", "a 1,cancel,stop of btrue", ""},
		{"a canary that does not go back", "create a1 b1; open a2 ~b2; rollback", faults("StopDeployment of b", "lost"), "a1 b1",
			"a 1,b 1,cancel,stop of btrue", ""},
		{"a canary that has ended", "create b1; open ~b2; rollback", faults("StopDeployment of b", "ended"), "b1", "b 1,cancel", ""},
		{"an update without a canary yet", "create a1 b1; open a2; rollback", none, "a1 b1", "a 1,cancel", ""},
		{"an update that has moved nothing yet", "create a1 b1; open ; rollback", none, "a1 b1", "cancel", ""},
		{"an update that ended meanwhile", "create a1 b1; open a2; rollback", faults("CancelUpdateStack ", "UPDATE_COMPLETE"), "a1 b1",
			"a 1,cancel", "run remit rollback again"},
		{"CloudFormation goes back already", "create a1 b1; open a2; rollback", status("UPDATE_ROLLBACK_IN_PROGRESS"), "a1 b1", "a 1", ""},

		{"AWS is stuck", "create a1 b1; open a2; rollback", status("UPDATE_ROLLBACK_FAILED"), "a1 b1", "a 1", ""},

		{"the older version knows older settings", release + "rollback", func(r *released) { r.has["b:1"] = map[string]string{"READS": "0"} },
			"a2 b2 c1", "", "version 1 of b does not understand"},
		{"the older version uses another table", release + "rollback", func(r *released) {
			r.has["b:1"] = map[string]string{"READS": "1", "API_KEYS_TABLE": "keys", "PAYMENTS_TABLE": "before"}
		}, "a2 b2 c1", "", "version 1 of b uses the table before"},
		{"beside a canary too", "create a1 b1; open a2 ~b2; rollback", func(r *released) { r.has["b:1"] = map[string]string{"READS": "0"} },
			"a2 b1", "", "does not understand"},
		{"settings are damaged", release + "rollback", func(r *released) { r.tables.SpoilSettings(settings.ErrDamaged) }, "a2 b2 c1", "",
			"the stored settings are damaged"},
		{"settings are newer", release + "rollback", func(r *released) { r.tables.SpoilSettings(settings.ErrNewer) }, "a2 b2 c1", "",
			"need newer code"},
		{"those of keys are missing", release + "rollback", func(r *released) { r.books = newReleased().books }, "a2 b2 c1", "",
			"settings of keys: no settings are stored"},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReleased()
				r.settle(t)
				steps := strings.Split(c.steps, "; ")
				var err error
				for i, step := range steps {
					kind, versions, _ := strings.Cut(step, " ")
					if kind != "rollback" {
						r.deploys(kind, versions)
						continue
					}
					if r.asked = nil; i == len(steps)-1 {
						c.set(r)
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
				if got, asked := strings.Join(runs, " "), strings.Join(r.asked, ","); got != c.runs || c.asked != "*" && asked != c.asked ||
					(err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("runs %s after %q, want %s after %q; error %v", got, asked, c.runs, c.asked, err)
				}
			})
		})
	}
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
	d := &deployed.Deployment{Target: deployed.Target{Stack: "remit"}, Platform: r, Account: r.Account, Mode: "live", Out: &out,
		Tables: deployed.Tables{Payments: r.tables, AuditLog: r.tables, Keys: r.books}}
	err := (&rollback.Command{Yes: yes}).Run(ctx, d)
	return out.String(), err
}
