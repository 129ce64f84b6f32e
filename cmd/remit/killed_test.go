package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	ethereum "github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"golang.org/x/sync/errgroup"

	"remit/internal/client"
	"remit/internal/devnet"
	"remit/internal/dynamo/dynamotest"
)

const payee = "0x2222222222222222222222222222222222222222"

// TestKilled kills the server with SIGKILL in the middle of a load of 500
// payments, with its tables and its chain outside the process, and starts it again.
// A payment that was answered 201 is mined exactly once, any other at most once.
// Two more rounds with the same Idempotency-Keys finish all, with the same hashes,
// and leave no nonce out.
func TestKilled(t *testing.T) {
	dynamodb := dynamotest.Start(t)
	dynamotest.Clear(t)
	file := filepath.Join(t.TempDir(), "chain.json")
	chain, printed := launch(t, "chain", "--chain-listen", "127.0.0.1:0", "--block-time", "250ms"), ""
	for line := ""; line != "}"; printed += line {
		line = chain.out.Await(t, "")
	}
	var facts devnet.Facts
	if err := errors.Join(json.Unmarshal([]byte(printed), &facts), os.WriteFile(file, []byte(printed), 0o600)); err != nil {
		t.Fatal(err)
	}
	args := []string{"--rpc", facts.RPCURL, "--token", facts.Token.Address.String(), "--wallet-file", file, "--dynamodb", dynamodb, "--key-creation", "public"}

	p, m := local(t, args...)
	m.join()
	hashes := make([]string, 500)
	failed := m.payAll(hashes, 120, p.kill)
	answered := len(hashes) - len(failed)
	t.Logf("%d payments were answered 201 before the server was killed, %d were not", answered, len(failed))
	if answered == 0 || len(failed) == 0 {
		t.Errorf("the server was not killed in the middle of the load")
	}

	_, again := local(t, args...)
	again.key = m.key
	again.awaitConfirmed(hashes)
	audit(t, facts, hashes)
	for range 2 {
		if errs := again.payAll(hashes, 0, nil); len(errs) > 0 {
			t.Fatalf("%d requests failed after the restart, first: %v", len(errs), errs[0])
		}
	}
	again.awaitConfirmed(hashes)
	audit(t, facts, hashes)
}

// amountOf is the amount of a payment, by which its transfer is found on the chain
// without asking the stack.
func amountOf(i int) int64 { return 1_000 + int64(i) }

// payAll asks for a payment for each place in hashes, by 32 clients at once, and
// keeps its hash there. A hash that is there already has to come again. After so
// many answers it calls then. It returns the errors of the requests that were not
// answered 201.
func (m *merchant) payAll(hashes []string, answers int64, then func()) []error {
	var clients errgroup.Group
	clients.SetLimit(32)
	errs := make([]error, len(hashes))
	var answered atomic.Int64
	for i := range hashes {
		clients.Go(func() error {
			p, err := m.api().Send(m.t.Context(), client.Order{To: payee, Amount: json.Number(fmt.Sprint(amountOf(i)))}, fmt.Sprint("order-", i))
			if errs[i] = err; err != nil {
				return nil
			}
			if hashes[i] != "" && hashes[i] != p.Hash {
				m.t.Errorf("order-%d: tx_hash was %s and is %s", i, hashes[i], p.Hash)
			}
			hashes[i] = p.Hash
			if answered.Add(1) == answers {
				then()
			}
			return nil
		})
	}
	_ = clients.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// awaitConfirmed waits until every payment whose hash is known is confirmed.
func (m *merchant) awaitConfirmed(hashes []string) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer stop()
	for _, hash := range hashes {
		for hash != "" {
			p, err := m.api().Transaction(ctx, hash)
			if err != nil {
				m.t.Fatalf("%s is not confirmed: %v", hash, err)
			}
			if p.Status == "confirmed" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// audit holds the chain against the answers: a payment whose hash is known is
// mined exactly once, any other at most once, and the node has no transaction left
// that waits for a nonce before its own.
func audit(t *testing.T, facts devnet.Facts, hashes []string) {
	t.Helper()
	node, err := ethclient.DialContext(t.Context(), facts.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	transfers, err := node.FilterLogs(t.Context(), ethereum.FilterQuery{
		FromBlock: big.NewInt(0), Addresses: []common.Address{common.Address(facts.Token.Address)},
		Topics: [][]common.Hash{
			{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil, {common.HexToHash(payee)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mined := map[int64]int{} // by amount
	for _, l := range transfers {
		mined[new(big.Int).SetBytes(l.Data).Int64()]++
	}
	for i, hash := range hashes {
		n := mined[amountOf(i)]
		delete(mined, amountOf(i))
		if n > 1 || n == 0 && hash != "" {
			t.Errorf("order-%d (%s) is mined %d times", i, hash, n)
		}
	}
	if len(mined) > 0 {
		t.Errorf("transfers that no request asked for: %v", mined)
	}
	for _, w := range facts.Wallets {
		settled := func() error { // a reservation that a cut-off request left is sent seconds later
			latest, err := node.NonceAt(t.Context(), common.Address(w.Address), nil)
			pending, pendingErr := node.PendingNonceAt(t.Context(), common.Address(w.Address))
			if err := errors.Join(err, pendingErr); err != nil || latest != pending {
				return fmt.Errorf("wallet %s: %d mined, %d pending: %w", w.Address, latest, pending, err)
			}
			return nil
		}
		for end := time.Now().Add(time.Minute); settled() != nil && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		if err := settled(); err != nil {
			t.Error(err)
		}
	}
}
