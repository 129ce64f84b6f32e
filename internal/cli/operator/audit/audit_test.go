package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
)

// audited is the answer of remit audit --json, as far as tests read it.
type audited struct {
	Sums []struct {
		Wallet    token.Address
		Day, Kind string
		Count     int
		Amount    token.Amount
	}
	Differences []struct{ Kind, What string }
}

func audit(l *operatortest.Ledger, args ...string) (a audited) {
	l.Helper()
	out := must.Get(l.Run(nil, append([]string{"audit", "--json"}, args...)...))(l)
	must.OK(l, json.Unmarshal([]byte(out), &a))
	return a
}

// TestAuditOfBooksThatBalance: every unit that left the wallets is in the books, by wallet, day and kind.
func TestAuditOfBooksThatBalance(t *testing.T) {
	l := operatortest.NewLedger(t)
	own := l.Mine(1, l.Transfer(l.Keys[0].Address(), 20)).Hash
	got := audit(l, "--own", own.String())
	found := map[string]int{}
	sum := token.Amount{}
	for _, s := range got.Sums {
		found[fmt.Sprint(s.Day, " ", s.Kind)] += s.Count
		sum, _ = sum.Add(s.Amount)
	}
	want := "map[2026-01-02 paid and known:2 2026-01-03 paid and known:1 2026-01-03 paid and pending:1 2026-01-03 your own:1]"
	if fmt.Sprint(found) != want || sum != token.Units(5+6+1_500_000+9+20) {
		t.Errorf("%v, %v units; want %s", found, sum, want)
	}
	if text, err := l.Run(nil, "audit", "--own", own.String()); err != nil || !strings.Contains(text, "No difference") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestAuditOfTransfers: coins that an operator moved between wallets are compared with the chain, ether is not.
func TestAuditOfTransfers(t *testing.T) {
	l := operatortest.NewLedger(t)
	l.Move(0, 1, l.Chain.Token(), 40)
	l.Move(0, 1, payment.Ether, 777)
	got := audit(l)
	count, coins := 0, token.Amount{}
	for _, s := range got.Sums {
		if s.Kind == "operator transfer" {
			count += s.Count
			coins, _ = coins.Add(s.Amount)
		}
	}
	if count != 1 || coins != token.Units(40) {
		t.Errorf("%d transfers of %v units: %+v", count, coins, got)
	}
	text, err := l.Run(nil, "export", "--merchant", payment.Operator, "--csv")
	if err != nil || strings.Count(text, "\n") != 3 || !strings.Contains(text, ",ETH,18,") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestMoments: the line names blocks by number or by time, and an impossible block is refused before anything is read.
func TestMoments(t *testing.T) {
	l := operatortest.NewLedger(t)
	const midnight = "2026-01-03T00:00:00Z"
	for day, args := range map[string][]string{"2026-01-02": {"--to", midnight}, "2026-01-03": {"--from", midnight}} {
		got := audit(l, args...)
		for _, s := range got.Sums {
			if s.Day != day {
				t.Errorf("%v: %+v", args, s)
			}
		}
		if len(got.Sums) == 0 {
			t.Errorf("%v: nothing", args)
		}
	}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		if out, err := l.Run(nil, strings.Fields(c.Name)...); err == nil || !strings.Contains(err.Error(), c.Want) {
			t.Errorf("%v, want %q\n%s", err, c.Want, out)
		}
	})
}

// TestAuditFindsEachDifference: whatever the tables and the chain differ on is named, and is an error.
func TestAuditFindsEachDifference(t *testing.T) {
	l := operatortest.NewLedger(t)
	alter := func(i int, change func(*payment.Payment)) func([]payment.Payment) []payment.Payment {
		return func(all []payment.Payment) []payment.Payment {
			change(&all[i])
			return all
		}
	}
	id, hash := func(i int) string { return string(l.Payments[i].ID) }, func(i int) string { return l.Payments[i].TxHash.String() }
	for _, row := range []struct {
		name   string
		change func([]payment.Payment) []payment.Payment
		want   []string
	}{
		{"an item that was deleted", func(all []payment.Payment) []payment.Payment { return slices.Delete(all, 0, 1) },
			[]string{"1 differences", "on the chain and unknown: " + hash(0), "0.000005 USDC to " + operatortest.Payee.String()}},
		{"an amount that was changed", alter(1, func(p *payment.Payment) { p.Amount = token.Units(600) }),
			[]string{"1 differences", "differs: " + hash(1) + " " + id(1), "0.000006 USDC", "tables say 0.0006 USDC"}},
		{"a recipient that was changed", alter(1, func(p *payment.Payment) { p.To = token.Address{0xcc} }),
			[]string{"2 differences", "unknown: " + hash(1) + " " + id(1), "known and not on the chain: " + hash(1) + " " + id(1)}},
		{"a payment that ended otherwise", alter(1, func(p *payment.Payment) {
			p.State, p.Failure = payment.Failed, &payment.Failure{Code: payment.TransferMissing}
		}), []string{"1 differences", "differs: " + hash(1), "the tables have it as failed: transfer_missing"}},
		{"a payment that the chain reverted", alter(2, func(p *payment.Payment) { p.State, p.Failure = payment.Confirmed, nil }),
			[]string{"1 differences", "known and not on the chain: " + hash(2) + " " + id(2), "0.000007 USDC"}},
		{"another block", alter(0, func(p *payment.Payment) { p.Block++ }),
			[]string{"1 differences", "differs: " + hash(0), "the tables say transaction " + hash(0) + " in block"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := l.Run(row.change, "audit")
			for _, want := range row.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(out, "No difference") {
					t.Errorf("%v: want %q in:\n%s", err, want, out)
				}
			}
		})
	}
	foreign := l.Mine(0, l.Transfer(token.Address{0xdd}, 77))
	_, err := l.Run(nil, "audit")
	for _, want := range []string{"1 differences", "unknown: " + foreign.Hash.String(), "0.000077 USDC to 0xdD"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a transaction of a stranger: %v, want %q", err, want)
		}
	}
	if got := audit(l, "--own", foreign.Hash.String()); len(got.Differences) != 0 {
		t.Errorf("%+v: the operator has named it", got.Differences)
	}
}

// TestAuditNeedsNodesThatAgree: a node that gives other transfers, or none, is named, and nothing is concluded.
func TestAuditNeedsNodesThatAgree(t *testing.T) {
	l := operatortest.NewLedger(t)
	// A request whose answer takes two seconds is sent again: two may be served at once.
	var logs atomic.Int64
	var lies atomic.Bool
	node := &fault.Gateway{Node: l.Chain.URL()}
	node.Habit.Store(&fault.Habit{One: func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		a := ask(c)
		if c.Method == "eth_getLogs" {
			logs.Add(1)
			if lies.Load() {
				a.Result = bytes.Replace(a.Result, []byte(`0011"`), []byte(`0022"`), 1)
			}
		}
		return a
	}})
	liar := httptest.NewServer(node)
	defer liar.Close()
	l.URLs = append(l.URLs, liar.URL)
	if out, err := l.Run(nil, "audit"); err != nil || logs.Load() != 1 {
		t.Fatalf("both are honest: %v, %d requests for logs\n%s", err, logs.Load(), out)
	}
	lies.Store(true)
	if out, err := l.Run(nil, "audit"); err == nil || !strings.Contains(err.Error(), "nodes disagree") ||
		!strings.Contains(err.Error(), strings.TrimPrefix(liar.URL, "http://")) || out != "" {
		t.Errorf("one lies: %v\n%s", err, out)
	}
	liar.Close()
	if _, err := l.Run(nil, "audit"); err == nil || !strings.Contains(err.Error(), "configured node must answer") {
		t.Errorf("one is down: %v", err)
	}
}

// TestAuditOfABatch: each entry of a batch is held against a log of its own.
func TestAuditOfABatch(t *testing.T) {
	l := operatortest.NewLedger(t)
	entries := []payment.Entry{{To: operatortest.Payee, Amount: token.Units(30)},
		{To: token.Address{0x33}, Amount: token.Units(40)}, {To: operatortest.Payee, Amount: token.Units(30)}}
	r, _ := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "batch"}.Batch(entries)
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, l.Chain.Token(), "local", operatortest.Nine)
	p.BatchContract = install.Address()
	call := p.Call(l.Keys[0].Address(), true)
	l.Enter(0, p.AssignedTo(call.From, chain.Tx{ChainID: l.Chain.ID(), To: call.To, Data: call.Data, Gas: 500_000,
		Fees: operatortest.Fees}), true)
	count, sum := 0, token.Amount{}
	for _, s := range audit(l).Sums {
		if s.Kind == "paid and known" {
			count += s.Count
			sum, _ = sum.Add(s.Amount)
		}
	}
	if count != 3+3 || sum != token.Units(5+6+1_500_000+100) {
		t.Errorf("%d transfers of %v units are paid and known", count, sum)
	}
	last := len(l.Payments) - 1
	for want, change := range map[string]func([]payment.Entry) []payment.Entry{
		"0.00003 USDC to " + operatortest.Payee.String() + " in block 9; the tables say 0.000031 USDC": func(e []payment.Entry) []payment.Entry {
			e[2].Amount = token.Units(31)
			return e
		},
		"0.00003 USDC to " + operatortest.Payee.String() + " in block 9, by the transaction of a payment " +
			"of 0.0001 USDC to 2 recipients": func(e []payment.Entry) []payment.Entry {
			return e[:2]
		},
		"the tables have it as confirmed in block 9: 0.0001 USDC to 4 recipients": func(e []payment.Entry) []payment.Entry {
			return append(e, e[0])
		},
	} {
		_, err := l.Run(func(all []payment.Payment) []payment.Payment {
			all[last].Entries = change(slices.Clone(entries))
			return all
		}, "audit")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
