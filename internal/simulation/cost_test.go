package simulation_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/interpose"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/settlement"
	st "remit/internal/simulation"
	"remit/internal/stack"
	"remit/internal/token"
	"remit/internal/webhook"
)

// A till counts what is asked of the store and of the node.
type till struct {
	chain.Node
	mu     sync.Mutex
	store  []string // calls, in the order they began
	rpc    []string // requests, the same
	hashes int      // receipts asked for
}

func (c *till) call(ctx context.Context, called interpose.Call, apply func(context.Context)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store = append(c.store, called.Op)
	apply(ctx)
	return nil
}

func (c *till) request(method string, hashes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rpc = append(c.rpc, method)
	c.hashes += hashes
}

func (c *till) reset() { c.store, c.rpc, c.hashes = nil, nil, 0 }

func (c *till) reads() (n int) {
	for _, op := range c.store {
		if slices.Contains([]string{"Wallets", "Wallet", "PendingTxs", "PendingTx", "Payment", "PaymentByHash"}, op) {
			n++
		}
	}
	return n
}

func (c *till) Fees(ctx context.Context) (chain.Market, error) {
	c.request("Fees", 0)
	return c.Node.Fees(ctx)
}

func (c *till) Estimate(ctx context.Context, call chain.Call) (uint64, error) {
	c.request("Estimate", 0)
	return c.Node.Estimate(ctx, call)
}

func (c *till) Account(ctx context.Context, w, coin token.Address, f chain.ConfirmationRule) (chain.Account, error) {
	c.request("Account", 0)
	return c.Node.Account(ctx, w, coin, f)
}

func (c *till) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	c.request("Receipts", len(hashes))
	return c.Node.Receipts(ctx, hashes)
}

func (c *till) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	c.request("BlockHashes", 0)
	return c.Node.BlockHashes(ctx, numbers)
}

func (c *till) Send(ctx context.Context, raw []byte) chain.Reply {
	c.request("Send", 0)
	return c.Node.Send(ctx, raw)
}

const costWallets = 16

// shop is a stack without faults that counts.
type shop struct {
	*till
	fake    *st.Chain
	pay     *dispatch.Dispatcher
	settler *settlement.Settler
	now     time.Time
}

type mute struct{}

func (mute) Hint(context.Context) error { return nil }

func (mute) Publish(context.Context, webhook.Event) error { return nil }

func newShop() *shop {
	s := &shop{till: &till{}, now: time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)}
	coin := token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}
	keys := &st.Keys{}
	s.fake = st.NewChain(7, coin.Contract, 1, 1)
	for i := range costWallets {
		keys.Add(st.Wallet(i))
		s.fake.Fund(st.Wallet(i), unit(1e15), unit(1e18))
	}
	s.till.Node = s.fake.Nodes[0]
	store := &interpose.Store{Store: memory.NewPayments(), Around: s.call}
	now := func() time.Time { return s.now }
	draw := rand.New(rand.NewPCG(1, 1))
	s.pay = dispatch.New(stack.Config{
		ChainID: 7, Token: coin, Network: "n", Window: 10_000, BlockTime: time.Minute, ConfirmationRule: chain.ConfirmationRule{Depth: 1},
	}, dispatch.Parts{
		Store: store, Keys: keys, Nodes: chain.Nodes{s.till}, Hints: mute{},
		Log: slog.New(slog.DiscardHandler), Now: now, Draw: draw.IntN,
	})
	s.settler = settlement.New(stack.Config{
		ChainID: 7, Token: coin, Window: 10_000, ConfirmationRule: chain.ConfirmationRule{Depth: 1}, BlockTime: time.Hour,
		ReservationAge: time.Minute, BumpAfter: time.Hour,
	}, settlement.Parts{
		Store: store, Keys: keys, Nodes: chain.Nodes{s.till}, Events: mute{},
		Log: slog.New(slog.DiscardHandler), Now: now,
	})
	return s
}

func (s *shop) send(t *testing.T, n int) {
	t.Helper()
	r := payment.Request{Merchant: "m", Mode: "test", Key: fmt.Sprint(n), To: st.Payee(n), Amount: unit(1)}
	if _, err := s.pay.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) round(t *testing.T) settlement.Report {
	t.Helper()
	s.reset()
	report, err := s.settler.Round(t.Context(), "run", true)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestCostOfSettling: what a round asks for grows with what was mined, not with
// what is pending.
func TestCostOfSettling(t *testing.T) {
	const each = 7 // mined per wallet, 112 in all
	for _, pending := range []int{1_000, 10_000} {
		s := newShop()
		for n := range pending {
			s.send(t, n)
		}
		s.round(t) // sets what is spendable
		report := s.round(t)
		is(t, "pending", report.Pending, pending)
		is(t, "requests with nothing mined", len(s.rpc), costWallets)
		is(t, "reads with nothing mined", s.reads(), 1+2*costWallets)

		s.fake.PerSender = each
		s.fake.Mine(s.fake.Nodes[0])
		s.fake.PerSender = 0
		s.fake.Abandon(0) // one empty block makes it final
		report = s.round(t)
		is(t, "confirmed", report.Confirmed, each*costWallets)
		is(t, "requests with 112 mined", len(s.rpc), 3*costWallets)
		is(t, "receipts asked for", s.hashes, each*costWallets)
		is(t, "reads with 112 mined", s.reads(), 1+2*costWallets+each*costWallets)
		// Claim, RaiseCeiling and Reconcile of each wallet, Finish and DeletePendingTx of each payment.
		is(t, "writes with 112 mined", len(s.store)-s.reads(), 3*costWallets+2*each*costWallets)
	}
}

// TestCostOfAPayment: put, reservation, commit, one after the other, then the release
// beside the broadcast; one request to a node before the reservation, one after it.
func TestCostOfAPayment(t *testing.T) {
	s := newShop()
	s.send(t, 0) // the first asks for fees, and looks at every wallet
	s.reset()
	s.send(t, 1)
	if want := []string{"Create", "Reserve", "Commit", "Release"}; !slices.Equal(s.store, want) {
		t.Errorf("store calls %v, want %v", s.store, want)
	}
	if want := []string{"Estimate", "Send"}; !slices.Equal(s.rpc, want) {
		t.Errorf("requests %v, want %v", s.rpc, want)
	}
	s.reset()
	s.send(t, 1) // a replay
	if want := []string{"Create"}; !slices.Equal(s.store, want) {
		t.Errorf("store calls of a replay %v, want %v", s.store, want)
	}
	s.now = s.now.Add(time.Hour)
	s.reset()
	s.send(t, 2)
	slices.Sort(s.rpc)
	if want := []string{"Estimate", "Fees", "Send"}; !slices.Equal(s.rpc, want) {
		t.Errorf("requests with an old quote %v, want %v, two of them at once", s.rpc, want)
	}
}
