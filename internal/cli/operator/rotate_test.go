package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/interpose"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestRotateKilledAfterEachStep kills `remit wallet rotate` after each thing that it
// stores, and gives the same command again until it ends: there is one successor, and it
// has been sent each coin twice, by four transfers.
func TestRotateKilledAfterEachStep(t *testing.T) {
	embedded, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 50 * time.Millisecond, Wallets: 1,
		Now: time.Now})
	must.OK(t, err)
	t.Cleanup(func() { _ = embedded.Close() })
	node := must.Get(ethrpc.Open(embedded.URL(), ethrpc.Config{ChainID: embedded.ID()}))(t)
	tables, config := memory.NewPayments(), stack.Config{
		ChainID: embedded.ID(), Token: embedded.Token(), Network: "devnet", Own: stack.Own{Window: 64, FeeLimit: token.Units(200_000_000_000)},
		BlockTime:        50 * time.Millisecond,
		ConfirmationRule: chain.ConfirmationRule{Depth: 2}, RegistryAge: time.Second, ReservationAge: time.Second,
	}
	must.OK(t, tables.SetSettings(t.Context(), settings.Default()))
	first := embedded.Wallets()[0]
	old := wallet.ID{ChainID: embedded.ID(), Address: first.Address}
	must.OK(t, tables.Register(t.Context(), wallet.Registration{ID: old, State: wallet.Active, Key: wallet.InSecret}))
	must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: old, Ceiling: 64}))
	var keys sync.Map // keyring.Key by address
	key := must.Get(keyring.ParseKey(first.PrivateKey()))(t)
	keys.Store(first.Address, key)
	ring := keyring.New(func(a token.Address) keyring.Read {
		return func(context.Context) (keyring.Key, error) {
			key, ok := keys.Load(a)
			if !ok {
				return keyring.Key{}, wallet.ErrNoKey
			}
			return key.(keyring.Key), nil
		}
	})
	settler := settlement.New(config, settlement.Parts{Store: tables, Keys: ring, Nodes: chain.Nodes{node}, Events: unheard{},
		Log: slog.New(slog.DiscardHandler), Now: time.Now})
	ctx, stop := context.WithCancel(t.Context())
	var settling sync.WaitGroup
	settling.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			_, _ = settler.Run(ctx, "run") // which may be cut off at the end
		}
	})
	t.Cleanup(func() { stop(); settling.Wait() })

	for w := (wallet.Wallet{}); w.Balance.IsZero(); time.Sleep(20 * time.Millisecond) { // until a run has seen what it has
		if w, err = tables.Wallet(t.Context(), old); err != nil {
			t.Fatal(err)
		}
	}

	killed := errors.New("killed")
	var kill context.CancelCauseFunc
	steps := []string{}
	stored := map[string]bool{}
	after := func(step string) error {
		if stored[step] {
			return nil
		}
		stored[step], steps = true, append(steps, step)
		kill(killed)
		return killed
	}
	payments := &interpose.Store{Store: tables, Around: func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		apply(ctx)
		switch c.Op {
		case "Register", "Open", "Create", "Reserve", "RaiseCeiling", "SetState", "Retire":
			return after(c.Op + " " + c.Args)
		}
		return nil
	}}
	local := &deployed.Local{
		Tables: deployed.Tables{Payments: payments, AuditLog: tables}, Nodes: []string{embedded.URL()}, Config: config,
		Hint: func(context.Context) error { return nil },
		Keyed: func() (all []token.Address) {
			keys.Range(func(a, _ any) bool { all = append(all, a.(token.Address)); return true })
			return all
		},
		PutKey: func(k keyring.Key) { keys.Store(k.Address(), k); _ = after("PutKey") },
	}
	run := func(args ...string) (string, string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		kill = cancel
		out, err := operatortest.Local(ctx, local, args...)
		if err != nil {
			return out, err.Error()
		}
		return out, ""
	}
	var out string
	for {
		before := len(steps)
		said := ""
		if out, said = run("wallet", "rotate", "--yes", first.Address.String()); said == "" {
			break
		}
		if len(steps) != before+1 || len(steps) > 13 || !strings.Contains(said, "give the same command again") {
			t.Fatalf("after %q: %s", steps, said)
		}
	}
	t.Logf("killed after %q", steps)
	if len(steps) != 13 { // a key, a registration, a record, four transfers of two writes, two states
		t.Errorf("killed after %d steps: %q", len(steps), steps)
	}
	wallets, err := tables.Wallets(t.Context(), embedded.ID())
	if err != nil || len(wallets) != 2 {
		t.Fatalf("%v, %v", wallets, err)
	}
	if r, _ := wallets.Find(first.Address); r.State != wallet.Retired {
		t.Errorf("the wallet is %s", r.State)
	}
	for _, r := range wallets {
		if r.Address != first.Address && (r.State != wallet.Active || r.Replaces != first.Address ||
			!strings.Contains(out, r.Address.String()+" has taken its place")) {
			t.Errorf("its successor: %+v; the command said %s", r, out)
		}
	}
	out, _ = run("export", "--merchant", "operator", "--csv")
	if n := strings.Count(out, ",confirmed,"); n != 4 || strings.Count(out, "\n") != 5 {
		t.Errorf("four transfers are to be confirmed: %s", out)
	}
	out, _ = run("wallet", "balance")
	if !strings.Contains(out, fmt.Sprint(first.Address, "  0 ")) {
		t.Errorf("the wallet has tokens: %s", out)
	}
	if again, said := run("wallet", "rotate", "--yes", first.Address.String()); said != "" || !strings.Contains(again, "has taken its place") {
		t.Errorf("once more: %s %s", again, said)
	}
}

// unheard publishes nothing: operators' transfers have no events.
type unheard struct{}

// Publish implements settlement.Events.
func (unheard) Named(context.Context, webhook.Owner, string) (bool, error) { return false, nil }
func (unheard) Publish(context.Context, webhook.Event) error               { return nil }
