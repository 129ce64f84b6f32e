package settlement_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

type script = porttest.Script[*world]

func breaks(calls ...string) script { return porttest.Breaks[*world](calls...) }

// A world is a settler with one wallet, whose calls to its ports follow a script. It is also the
// settler's node and Events. Its chain is one final block, number 5.
type world struct {
	chain.Node
	*porttest.Recorder[*world]
	settler *settlement.Settler

	mined    uint64                       // transactions of the wallet
	final    uint64                       // highest final block
	lag      uint64                       // how many blocks are above number 9
	settled  uint64                       // transactions of the wallet that are final; 0: those of w.receipts, once block 5 is
	pooled   uint64                       // the count with the node's pool
	price    uint64                       // base fee
	l1       uint64                       // fee of a transfer's data
	gas      uint64                       // estimate of every call; 0: it reverts
	reverts  chain.Call                   // for a reason
	reply    chain.Class                  // to every broadcast
	receipts map[chain.Hash]chain.Receipt // by transaction
	peer     *world                       // the second node; nil: there is one
	fork     uint64                       // height of a block that differs
	down     error                        // of its accounts
	has      settlement.Funds             // the wallet's balances on the chain
	atNonce  chain.Hash                   // TxAtNonce's answer for every mined nonce

	waits []time.Duration
	from  []string // the nonces from which pending transactions were read

	made   []payment.ID
	events []webhook.Event // published, in order
	named  bool            // the merchant wants payment.mined
	moves  token.Token     // by its payments
}

// payer is the wallet of a world, and id its name in the tables.
var (
	payer = token.Address{1}
	id    = wallet.ID{ChainID: 1, Address: payer}
	coin  = token.Token{Symbol: "USDC", Contract: token.Address{0xc0}}
)

var funds = settlement.Funds{Address: payer, Balance: token.Units(1_000_000), Gas: token.Units(1 << 60)}

func newWorld(t *testing.T, s script) *world {
	w := &world{final: 5, price: 10, reply: chain.Accepted, receipts: map[chain.Hash]chain.Receipt{}, has: funds}
	w.moves = coin
	w.Recorder = porttest.New(t, memory.NewPayments(), s, w)
	w.open(wallet.Wallet{ID: id, Ceiling: 64, Balance: funds.Balance, Gas: funds.Gas})
	w.settler = settlement.New(stack.Config{
		ChainID: 1, Token: coin, BlockTime: 12 * time.Second, Own: stack.Own{Window: 64, FeeLimit: token.Units(1000)},
	}, settlement.Parts{
		Store: &interpose.Store{Store: w.Tables, Around: w.around}, Keys: w, Nodes: w,
		Events: w, Log: slog.New(slog.DiscardHandler), Now: w.Now,
		Wait: func(_ context.Context, d time.Duration) {
			w.Pass(d)
			if w.waits = append(w.waits, d); len(w.waits) > 100 {
				t.Fatal("it waits for ever")
			}
		},
	})
	w.set(100)
	return w
}

func (w *world) open(opened wallet.Wallet) {
	w.Must(w.Tables.Open(context.Background(), opened, porttest.Rail.Token.Contract))
}

// register registers a wallet with a stored key.
func (w *world) register(of wallet.ID, s wallet.State) {
	w.Must(w.Tables.Register(context.Background(),
		wallet.Registration{ID: of, Token: porttest.Rail.Token.Contract, State: s, Key: wallet.InSecret}))
}

func (w *world) set(percent uint64) { w.Set(func(s *settings.Settings) { s.MerchantCap = percent }) }

func (w *world) around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	if c.Op == "PendingTxs" {
		_, nonce, _ := strings.Cut(c.Args, "#")
		w.Mu.Lock()
		w.from = append(w.from, nonce)
		w.Mu.Unlock()
	}
	return w.Around(ctx, c, apply)
}

// round makes one round, with idle wallets.
func (w *world) round() (settlement.Report, error) {
	return w.settler.Round(w.T.Context(), "run", true)
}

// run makes a run that has so much time left; zero: for ever.
func (w *world) run(left time.Duration) (settlement.Report, error) {
	ctx, cancel := context.WithCancel(w.T.Context())
	if left > 0 {
		ctx, cancel = context.WithDeadline(ctx, w.settler.Now().Add(left))
	}
	defer cancel()
	return w.settler.Run(ctx, "run")
}

func (w *world) scripted() {
	w.T.Helper()
	for call := range w.Script {
		w.T.Errorf("%s was not called: %v", call, w.Calls)
	}
}

// prepare stores a payment without a reservation.
func (w *world) prepare(key string, age time.Duration) payment.Payment {
	return w.prepareFor("mer_1", key, age)
}

func (w *world) prepareFor(merchant, key string, age time.Duration) payment.Payment {
	r := payment.Request{Merchant: merchant, Mode: "test", IdempotencyKey: key, To: token.Address{9}, Amount: token.Units(100)}
	fees := chain.Fees{Tip: token.Units(1), Cap: token.Units(21)}
	p := payment.New(payment.KeyID(merchant, "test", key), r, w.moves, "net", w.Now().Add(-age)).
		AssignedTo(payer, chain.Tx{ChainID: 1, To: coin.Contract, Gas: 10, Fees: fees, GasUnit: w.settler.GasUnit})
	_, _, err := w.Tables.Create(context.Background(), p)
	w.Must(err)
	w.made = append(w.made, p.ID)
	return p
}

// reserve stores a payment reserved an age ago, in tables that a run has compared with the chain.
func (w *world) reserve(key string, age time.Duration) payment.Payment {
	p := w.prepare(key, age)
	c, _ := w.Tables.Compared(context.Background(), porttest.Rail.Coin()) // in memory
	c.At, c.Ran, c.Since = w.Now().Add(-time.Hour), w.Now(), w.Now().Add(-2*time.Hour)
	w.Must(w.Tables.SetCompared(context.Background(), porttest.Rail.Coin(), c))
	must.Get(w.Tables.Reserve(context.Background(), store.NeedOf(p, w.Now().Add(-age))))(w.T)
	return p
}

func (w *world) commit(key string, age time.Duration) payment.Payment {
	p := w.unreleased(w.reserve(key, age), age)
	w.Must(w.Tables.Release(context.Background(), p.ID, store.PendingTxOf(p)))
	return p
}

// unreleased commits a payment an age ago, and keeps its reservation.
func (w *world) unreleased(p payment.Payment, age time.Duration) payment.Payment {
	return must.Get(store.Commit(context.Background(), w.Tables, w.Quiet(), p, w.record().Reservations[p.ID].Nonce, w.Now().Add(-age)))(w.T)
}

func (w *world) noop(nonce uint64, age time.Duration) wallet.PendingTx {
	tx := chain.Noop(1, payer, chain.Fees{Tip: token.Units(1), Cap: token.Units(21)})
	signed := must.Get(w.Quiet().Sign(context.Background(), tx, nonce))(w.T)
	pending := wallet.PendingNoop(id, tx, signed, w.Now().Add(-age))
	w.Must(w.Tables.PutNoop(context.Background(), pending))
	return pending
}

// paid mines p's transfer in block 5, as transaction hash.
func (w *world) paid(p payment.Payment, hash chain.Hash) {
	topic := must.Get(chain.ParseHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"))(w.T)
	var from, to chain.Hash
	copy(from[12:], p.Wallet[:])
	copy(to[12:], p.To[:])
	amount := p.Amount.Bytes32()
	w.mine(chain.Receipt{Tx: hash, Succeeded: true,
		Logs: []chain.Log{{Contract: coin.Contract, Topics: []chain.Hash{topic, from, to}, Data: amount[:]}}})
}

func (w *world) mine(r chain.Receipt) {
	r.Block, r.BlockHash = 5, chain.Hash{5}
	w.receipts[r.Tx] = r
	w.mined++
}

func (w *world) second() *world {
	w.peer = &world{Recorder: w.Quiet(), mined: w.mined, final: w.final, price: w.price, reply: w.reply,
		receipts: maps.Clone(w.receipts), has: w.has}
	return w.peer
}

// known stores the newest final block that earlier runs have seen.
func (w *world) known(b chain.Block) {
	c := must.Get(w.Tables.Compared(context.Background(), porttest.Rail.Coin()))(w.T)
	c.Final, c.Seen = b, w.Now()
	w.Must(w.Tables.SetCompared(context.Background(), porttest.Rail.Coin(), c))
}

// claim claims the wallet for another run; until counts from now.
func (w *world) claim(by string, until time.Duration) {
	must.Get(w.Tables.Claim(context.Background(), id, by, w.Now().Add(-time.Hour), w.Now().Add(until), nil))(w.T)
}

func (w *world) record() wallet.Wallet { return w.Record(id) }

// end returns the outcome of three more rounds, without hashes and times.
func (w *world) end() []string {
	for range 3 {
		must.Get(w.round())(w.T)
	}
	r := w.record()
	end := []string{fmt.Sprint(r.NextNonce, r.NoopsBelow, r.Ceiling, r.Balance, r.Gas, r.Paused, r.Reservations, r.PerMerchant),
		fmt.Sprint(w.ids())}
	for _, tx := range w.pending() {
		end = append(end, fmt.Sprint(tx.Nonce, " ", tx.Noop(), " ", len(tx.Hashes)))
	}
	for _, id := range w.made {
		p, _ := w.Tables.Payment(context.Background(), id)
		end = append(end, fmt.Sprint(p.State, " ", p.Nonce, " ", len(p.Attempts), " ", p.Failure))
	}
	return end
}

func (w *world) stored(p payment.Payment) payment.Payment {
	return must.Get(w.Tables.Payment(context.Background(), p.ID))(w.T)
}

func (w *world) pending() []wallet.PendingTx {
	txs, _, err := w.Tables.PendingTxs(context.Background(), id, 0)
	w.Must(err)
	return txs
}

func (w *world) Nodes(context.Context) (chain.Nodes, error) {
	nodes := chain.Nodes{interpose.Node{Node: w, Around: w.around}}
	if w.peer != nil {
		nodes = append(nodes, interpose.Node{Node: w.peer, Around: w.around})
	}
	return nodes, w.Call("Nodes")
}

func (w *world) Named(context.Context, webhook.Owner, string) (named bool, err error) {
	err = w.around(context.Background(), interpose.Call{Op: "Named"}, func(context.Context) { named = w.named })
	return named, err
}

func (w *world) Publish(_ context.Context, e webhook.Event) error {
	return w.around(context.Background(), interpose.Call{Op: "Publish"}, func(context.Context) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		ids := w.ids()
		if stored := w.record().Progress.Mined; e.Type == webhook.PaymentMined && !slices.Contains(ids, e.ID) && stored > uint64(len(ids)) {
			w.T.Errorf("%d are stored as mined before the event %d", stored, len(ids)+1)
		}
		for _, before := range w.events {
			if before.ID == e.ID && !reflect.DeepEqual(before, e) {
				w.T.Errorf("%s is published in two forms:\n%s %s\n%s %s", e.ID, before.At, before.Body, e.At, e.Body)
			}
		}
		w.events = append(w.events, e)
	})
}

// ids returns the ids of the published events, each once.
func (w *world) ids() []string {
	ids := map[string]bool{}
	for _, e := range w.events {
		ids[e.ID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

func (w *world) String() string {
	return map[bool]string{true: "peer", false: "node"}[w.settler == nil]
}

func (w *world) Fees(context.Context) (chain.Market, error) {
	return chain.Market{BaseFee: token.Units(w.price), Tip: token.Units(1), L1Fee: token.Units(w.l1)}, nil
}

func (w *world) Estimate(_ context.Context, c chain.Call) (uint64, error) {
	if reflect.DeepEqual(c, w.reverts) {
		return 0, &chain.RevertError{Reason: "Pausable: paused"}
	}
	if w.gas == 0 {
		return 0, chain.ErrReverted
	}
	return w.gas, nil
}

func (w *world) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	return chain.Head{Number: 9 + w.lag, Final: w.final}, nil
}

func (w *world) Account(_ context.Context, _, _ token.Address, head chain.Head) (chain.Account, error) {
	return chain.Account{Head: head, Mined: w.mined, Pending: max(w.mined, w.pooled), Balance: w.has.Balance, Gas: w.has.Gas}, w.down
}

// Count gives w.settled, or the transactions with receipts once their block is final.
func (w *world) Count(context.Context, token.Address, uint64) (uint64, error) {
	if w.settled == 0 && w.final >= 5 {
		return uint64(len(w.receipts)), nil
	}
	return w.settled, nil
}

func (w *world) Receipts(_ context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	var found []chain.Receipt
	once := map[chain.Hash]bool{}
	for _, h := range hashes {
		if once[h] {
			w.T.Errorf("the receipt of %s is asked for twice", h)
		}
		once[h] = true
	}
	for _, h := range hashes {
		if r, ok := w.receipts[h]; ok {
			found = append(found, r)
		}
	}
	return found, nil
}

func (w *world) BlockHashes(_ context.Context, numbers []uint64) ([]chain.Hash, error) {
	hashes := make([]chain.Hash, len(numbers))
	for i, n := range numbers {
		hashes[i] = chain.Hash{byte(n)}
		if n > 0 && n == w.fork {
			hashes[i] = chain.Hash{byte(n), 1}
		}
	}
	return hashes, nil
}

func (w *world) TxAtNonce(_ context.Context, _ token.Address, nonce, _ uint64) (chain.Hash, error) {
	if nonce >= w.mined {
		return chain.Hash{}, nil
	}
	return w.atNonce, nil
}

func (w *world) Send(context.Context, []byte) chain.Reply { return chain.Reply{Class: w.reply} }

// Transactions gives the transaction that used a nonce: none, a no-op, a stranger's, or one like the payments'.
func (w *world) Transactions(_ context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	switch hashes[0] {
	case chain.Hash{}, chain.Hash{0xfd}:
		return nil, nil
	case nothing:
		return []chain.MinedTx{{Hash: nothing, From: payer, To: payer}}, nil
	}
	other := map[bool]string{true: "of a stranger"}[hashes[0] == stranger]
	return []chain.MinedTx{{Hash: hashes[0], From: payer, To: coin.Contract, Data: other}}, nil
}
