package settlement_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/settlement"
)

// TestReportsAddUp: alarms ring on these counts. The reports of a round's wallets are
// added. A later round's counts of finished work are added to those before, while its
// counts of open work take their place.
func TestReportsAddUp(t *testing.T) {
	fund := func(n byte, gap uint64) settlement.Funds {
		return settlement.Funds{Address: token.Address{n}, Gap: gap}
	}
	one := settlement.Report{
		Busy: true, Confirmed: 1, Failed: 2, Reservations: 3, Noops: 4, Bumps: 5, Resent: 6, Refused: 7, Unreadable: 8, Unruled: 1,
		Suspect: 9, Undecided: 10, Paused: 11, Unfilled: 12, Funding: []uint64{13}, Pending: 14, Oldest: 15, ToFinal: []time.Duration{16},
		Spent: []settlement.Spent{{Noop: true}}, Wallets: []settlement.Funds{fund(1, 1), fund(2, 2)},
	}
	other := settlement.Report{
		ClaimedElsewhere: true, Confirmed: 100, Failed: 100, Reservations: 100, Noops: 100, Bumps: 100, Resent: 100, Refused: 100,
		Unreadable: 100, Suspect: 100, Undecided: 100, Paused: 4, Unfilled: 100, Funding: []uint64{100}, Pending: 100, Oldest: 10,
		ToFinal: []time.Duration{100}, Spent: []settlement.Spent{{}}, Wallets: []settlement.Funds{fund(1, 3)},
	}
	added := settlement.Report{
		Busy: true, ClaimedElsewhere: true, Confirmed: 101, Failed: 102, Reservations: 103, Noops: 104, Bumps: 105, Resent: 106,
		Refused: 107, Unreadable: 108, Unruled: 1, Suspect: 109, Undecided: 110, Paused: 15, Unfilled: 112, Funding: []uint64{13, 100},
		Pending: 114, Oldest: 15, ToFinal: []time.Duration{16, 100}, Spent: []settlement.Spent{{Noop: true}, {}},
		Wallets: []settlement.Funds{fund(1, 1), fund(2, 2), fund(1, 3)},
	}
	followed := added // one by other
	followed.Busy, followed.Unreadable, followed.Unruled, followed.Undecided, followed.Pending = false, 100, 0, 100, 100
	followed.Paused = 11 // a wallet that is paused and idle is not looked at in later rounds
	followed.Wallets = []settlement.Funds{fund(2, 2), fund(1, 3)}
	preceded := added // one by other
	preceded.ClaimedElsewhere, preceded.Unreadable, preceded.Undecided, preceded.Paused, preceded.Pending = false, 8, 10, 11, 14
	preceded.Funding, preceded.ToFinal = []uint64{100, 13}, []time.Duration{100, 16}
	preceded.Spent, preceded.Wallets = []settlement.Spent{{}, {Noop: true}}, one.Wallets

	for field, value := range reflect.ValueOf(added).Fields() {
		if value.IsZero() {
			t.Errorf("no report has a %s", field.Name)
		}
	}
	for _, test := range []struct {
		name          string
		first, second settlement.Report
		join          func(*settlement.Report, settlement.Report)
		want          settlement.Report
	}{
		{"of two wallets", one, other, (*settlement.Report).Add, added},
		{"of a later round", one, other, (*settlement.Report).Next, followed},
		{"of a round before", other, one, (*settlement.Report).Next, preceded},
	} {
		got := test.first
		got.Funding, got.Wallets = append([]uint64(nil), got.Funding...), append([]settlement.Funds(nil), got.Wallets...)
		test.join(&got, test.second)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(settlement.Funds{}, settlement.Spent{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
