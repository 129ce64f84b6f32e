package sandbox

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestAnUpdateIsShort: an update lists the newest of 10,000 payments, and counts all.
func TestAnUpdateIsShort(t *testing.T) {
	s := &Sandbox{now: time.Now, view: newView()}
	id := func(i int) payment.ID { return payment.KeyID("mer_1", "test", fmt.Sprint(i)) }
	for i := range 10_000 {
		s.reached(id(i), Prepared)
		s.count(id(i), 1, 1)
	}
	u := s.update()
	if text, err := json.Marshal(u); err != nil || len(text) > 100_000 || len(u.Payments) != Listed ||
		len(u.Lines) != logged || u.Count.Asked != 10_000 || u.Count.Once != 10_000 || u.Steps[Mined] != 10_000 {
		t.Errorf("the update has %d bytes, %d payments, %d lines, %+v, %v: %v", len(text), len(u.Payments), len(u.Lines), u.Count, u.Steps, err)
	}
	s.count("", 2, 1) // a transfer without a payment's id
	s.count(id(1), 2, 1)
	s.count(id(2), 1, -1)
	if u := s.update(); u.Count.Twice != 1 || u.Count.Unpaid != 1 || u.Count.Unasked != 1 || u.Count.Once != 9_998 {
		t.Errorf("one transfer too many, one taken back, one of nobody: %+v", u.Count)
	}
}

// TestBatches: of two batches in one block, each is one payment, paid once.
func TestBatches(t *testing.T) {
	c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: time.Now}))(t)
	t.Cleanup(func() { _ = c.Close() })
	s := New(time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = s.Close() })
	must.Get(s.Add(c, stack.Config{ChainID: c.ID(), Token: c.Token()}))(t)
	var raw [][]byte
	contract, signer := common.Address(install.Address()), types.LatestSignerForChainID(new(big.Int).SetUint64(c.ID()))
	for i, w := range c.Wallets() {
		id := payment.KeyID("mer_1", "test", fmt.Sprint(i))
		s.reached(id, Committed)
		var entries []disburser.Entry
		for j := range 60 {
			entries = append(entries, disburser.Entry{To: token.Address{1 + byte(i), 1 + byte(j)}, Amount: token.Units(5)})
		}
		key := must.Get(crypto.ToECDSA(w.Key[:]))(t)
		tx, err := types.SignNewTx(key, signer, &types.DynamicFeeTx{ChainID: signer.ChainID(),
			GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e12), Gas: 15_000_000,
			To: &contract, Data: disburser.Calldata(c.Token().Contract, entries, id.Memo())})
		must.OK(t, err)
		bytes := must.Get(tx.MarshalBinary())(t)
		raw = append(raw, bytes)
	}
	must.OK(t, c.MineExactly(raw...))
	must.OK(t, s.readChain(t.Context(), s.rails[0]))
	u := s.update()
	if want := (count{Asked: 2, Once: 2}); u.Count != want || u.Chains[0].Logs != 2 {
		t.Errorf("the page counts %+v, want %+v", u, want)
	}
}
