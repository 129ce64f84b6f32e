package settlement_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"remit/internal/settlement"
	"remit/internal/token"
)

// TestReportsAddUp: alarms ring on these counts. The reports of a round's wallets
// are added. When a later round follows, its counts of finished work are added
// to those before, while its counts of open work take their place.
func TestReportsAddUp(t *testing.T) {
	first := settlement.Funds{Address: token.Address{1}, Gap: 1}
	second := settlement.Funds{Address: token.Address{2}, Gap: 2}
	both, again := []settlement.Funds{first, second}, settlement.Funds{Address: token.Address{1}, Gap: 3}
	equal := cmpopts.EquateComparable(settlement.Funds{}, settlement.Spent{})
	untested := map[string]bool{}
	for f := range reflect.TypeFor[settlement.Report]().Fields() {
		untested[f.Name] = true
	}
	for _, row := range []struct {
		field        string
		one, other   any
		added, later any
	}{
		{"Busy", false, false, false, false},
		{"Busy", false, true, true, true},
		{"Busy", true, false, true, false},
		{"ClaimedElsewhere", false, false, false, false},
		{"ClaimedElsewhere", false, true, true, true},
		{"ClaimedElsewhere", true, false, true, false},
		{"Confirmed", 2, 3, 5, 5},
		{"Failed", 2, 3, 5, 5},
		{"Reservations", 2, 3, 5, 5},
		{"Noops", 2, 3, 5, 5},
		{"Bumps", 2, 3, 5, 5},
		{"Resent", 2, 3, 5, 5},
		{"Refused", 2, 3, 5, 5},
		{"Suspect", 2, 3, 5, 5},
		{"Unfilled", 2, 3, 5, 5},
		{"Funding", []uint64{2}, []uint64{3}, []uint64{2, 3}, []uint64{2, 3}},
		{"ToFinal", []time.Duration{2}, []time.Duration{3}, []time.Duration{2, 3}, []time.Duration{2, 3}},
		{"Spent", []settlement.Spent{{Noop: true}}, []settlement.Spent{{}}, []settlement.Spent{{Noop: true}, {}},
			[]settlement.Spent{{Noop: true}, {}}},
		{"Unreadable", 2, 3, 5, 3},
		{"Unreadable", 3, 0, 3, 0},
		{"Unruled", 0, 1, 1, 1},
		{"Unruled", 1, 0, 1, 0},
		{"Undecided", 2, 3, 5, 3},
		{"Undecided", 3, 0, 3, 0},
		{"Pending", 2, 3, 5, 3},
		{"Pending", 3, 0, 3, 0},
		// A wallet that is paused and idle is not looked at in later rounds.
		{"Paused", 2, 3, 5, 3},
		{"Paused", 3, 0, 3, 3},
		{"Oldest", 2 * time.Hour, 3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		{"Oldest", 3 * time.Hour, 2 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		{"Wallets", []settlement.Funds{first}, []settlement.Funds{second}, both, both},
		{"Wallets", both, []settlement.Funds(nil), both, both},
		{"Wallets", both, []settlement.Funds{again}, []settlement.Funds{first, second, again}, []settlement.Funds{second, again}},
	} {
		delete(untested, row.field)
		report := func(value any) (r settlement.Report) {
			reflect.ValueOf(&r).Elem().FieldByName(row.field).Set(reflect.ValueOf(value))
			return r
		}
		added, later := report(row.one), report(row.one)
		added.Add(report(row.other))
		if diff := cmp.Diff(report(row.added), added, equal); diff != "" {
			t.Errorf("%s %v with %v of another wallet (-want +got):\n%s", row.field, row.one, row.other, diff)
		}
		later.Next(report(row.other))
		if diff := cmp.Diff(report(row.later), later, equal); diff != "" {
			t.Errorf("%s %v, in a later round %v (-want +got):\n%s", row.field, row.one, row.other, diff)
		}
	}
	for name := range untested {
		t.Errorf("no row says how %s adds up", name)
	}
}
