package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"remit/internal/client"
	"sync"
	"testing"
	"time"

	ethereum "github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
)

// An order is one payment a test wants made. Its amount is its own, so that
// the transfer can be found on the chain without asking the stack.
type order struct {
	key    string
	amount int64
	hash   string // from a 201, empty without one
}

func orders(n int) []*order {
	all := make([]*order, n)
	for i := range all {
		all[i] = &order{key: fmt.Sprintf("order-%d", i), amount: int64(1_000 + i)}
	}
	return all
}

const payee = "0x2222222222222222222222222222222222222222"

// pay asks for the payment once. An answer other than 201 is an error.
func (m *merchant) pay(ctx context.Context, o *order) error {
	p, err := m.api().Send(ctx, client.Order{To: payee, Amount: json.Number(fmt.Sprint(o.amount))}, o.key)
	if err != nil {
		return fmt.Errorf("%s: %w", o.key, err)
	}
	if o.hash != "" && o.hash != p.Hash {
		m.t.Errorf("%s: tx_hash was %s and is %s", o.key, o.hash, p.Hash)
	}
	o.hash = p.Hash
	if m.answered != nil {
		m.answered(int(m.count.Add(1)))
	}
	return nil
}

// payAll makes all payments with so many clients at once and returns the
// errors met.
func (m *merchant) payAll(ctx context.Context, all []*order, clients int) []error {
	work := make(chan *order)
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for o := range work {
				if err := m.pay(ctx, o); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, o := range all {
		work <- o
	}
	close(work)
	wg.Wait()
	return errs
}

// awaitStatus polls until every order that was answered has the status.
func (m *merchant) awaitStatus(all []*order, status string, limit time.Duration) {
	m.t.Helper()
	deadline := time.Now().Add(limit)
	for _, o := range all {
		for o.hash != "" {
			p, err := m.api().Transaction(m.t.Context(), o.hash)
			if err != nil {
				m.t.Fatal(err)
			}
			if p.Status == status {
				break
			}
			if time.Now().After(deadline) {
				m.t.Fatalf("%s is %s after %s, want %s", o.key, p.Status, limit, status)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// mined counts the Transfer logs to payee by amount.
func mined(t *testing.T, rpc, contract string) map[int64]int {
	t.Helper()
	node, err := ethclient.DialContext(t.Context(), rpc)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	logs, err := node.FilterLogs(t.Context(), ethereum.FilterQuery{
		FromBlock: big.NewInt(0), Addresses: []common.Address{common.HexToAddress(contract)},
		Topics: [][]common.Hash{
			{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil,
			{common.BytesToHash(common.HexToAddress(payee).Bytes())},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int64]int{}
	for _, l := range logs {
		counts[new(big.Int).SetBytes(l.Data).Int64()]++
	}
	return counts
}

// noHoles checks that no wallet's nonces have a hole: a node has nothing of them
// left to mine.
func noHoles(t *testing.T, rpc string, wallets []string) {
	t.Helper()
	node, err := ethclient.DialContext(t.Context(), rpc)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	for _, w := range wallets {
		latest, err := node.NonceAt(t.Context(), common.HexToAddress(w), nil)
		if err != nil {
			t.Fatal(err)
		}
		pending, err := node.PendingNonceAt(t.Context(), common.HexToAddress(w))
		if err != nil {
			t.Fatal(err)
		}
		if latest != pending {
			t.Errorf("wallet %s: %d mined, %d pending", w, latest, pending)
		}
	}
}

// A scene is where a stack's chain is, as GET /sandbox says it.
type scene struct {
	rpc, token string
	wallets    []string
}

func (m *merchant) scene() scene {
	m.t.Helper()
	facts := m.must("GET", "/sandbox", "")
	s := scene{rpc: facts["rpc_url"].(string), token: facts["token"].(map[string]any)["address"].(string)}
	for _, w := range facts["wallets"].([]any) {
		s.wallets = append(s.wallets, w.(map[string]any)["address"].(string))
	}
	return s
}
