package measure_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/memory"
	"remit/internal/token"
)

// BenchmarkPost measures POST /send-payment under clients that each make one
// payment after the other, beside the reference on the same chain. Remit and the
// reference take turns, so that other work of the machine slows both.
func BenchmarkPost(b *testing.B) {
	c, length := startChain(b, 17), time.Duration(pick(1500, 500))*time.Millisecond
	for _, d := range []distance{far, near} {
		roundTrips := 2*d.rpc + 3*d.store // of one payment, in sequence: estimate, put, reservation, commit, broadcast
		for _, clients := range pick([]int{1, 4, 16, 64, 128}, []int{1, 64}) {
			name := fmt.Sprintf("%v/clients=%d/payer=", d, clients)
			b.Run(name+"reference", func(b *testing.B) {
				paying := c.Wallets()[:1]
				before := mined(b, c, paying)
				latency, lost, _ := load(b, clients, math.MaxInt, length, newReference(b, c, d).pay)
				b.ReportMetric(float64(lost), "lost")
				await(b, c, paying, before+len(latency))
			})
			for _, wallets := range pick([]int{1, 4, 16}, []int{4}) {
				b.Run(fmt.Sprintf("%s%d-wallets", name, wallets), func(b *testing.B) {
					paying := c.Wallets()[1 : 1+wallets] // the first is the reference's
					r := newRig(b, c, paying, memory.NewPayments(), d, nil)
					before := mined(b, c, paying)
					payMany(b, r, 1, 1)
					r.take()
					latency, lost, why := load(b, clients, math.MaxInt, length, r.pay)
					if lost > 0 {
						b.Fatalf("%d payments were lost, such as one with: %v", lost, why)
					}
					calls := r.take()
					b.ReportMetric(float64(calls["request"])/float64(len(latency)), "requests/payment")
					b.ReportMetric(float64(calls["Hint"])/float64(len(latency)), "hints/payment")
					if roundTrips > 0 {
						b.ReportMetric(quantile(latency, 0.5)/millis(roundTrips), "p50/roundtrips")
					}
					if want := before + 1 + len(latency); await(b, c, paying, want) != want {
						b.Fatalf("a nonce hole, or a second transfer: want %d transactions", want)
					}
				})
			}
		}
	}
}

// load has clients make n payments, or as many as they begin within limit, each
// one payment after the other. It returns the milliseconds of each payment that
// was answered 201, the number of the others, and the error of one of them.
func load(b *testing.B, clients, n int, limit time.Duration, pay func(ctx context.Context, n int) error) (latency []float64, lost int,
	why error) {
	b.Helper()
	var mu sync.Mutex
	var used, after syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	begin := time.Now()
	until, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	check(b, each(until, clients, n, func(_ context.Context, i int) error {
		at := time.Now()
		err := pay(b.Context(), i)
		took := millis(time.Since(at))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			lost, why = lost+1, err
		} else {
			latency = append(latency, took)
		}
		return nil
	}))
	took := time.Since(begin)
	if len(latency) == 0 {
		b.Fatalf("no payment was made: %v", why)
	}
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - used.Utime.Nano() - used.Stime.Nano())
	report(b, metrics{"payments/s": float64(len(latency)) / took.Seconds(), "cpu-ms/payment": millis(cpu) / float64(len(latency)),
		"p50-ms": quantile(latency, 0.5), "p99-ms": quantile(latency, 0.99)})
	return latency, lost, why
}

// mined returns how many transactions of the wallets are mined.
func mined(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet) (n int) {
	b.Helper()
	for _, w := range wallets {
		n += int(must(c.NonceOf(b.Context(), w.Address))(b))
	}
	return n
}

// await waits until so many transactions of the wallets are mined and final, and
// returns how many are mined. A rig takes a wallet on only when all are final.
func await(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet, want int) int {
	b.Helper()
	for range 240 { // a minute of blocks
		if got := mined(b, c, wallets); got >= want {
			for head := c.Head().Number; c.Head().Number < head+confirmed.Depth; {
				time.Sleep(blockTime / 10)
			}
			return got
		}
		time.Sleep(blockTime)
	}
	b.Fatalf("%d of %d transactions were mined", mined(b, c, wallets), want)
	return 0
}

// A reference pays out tokens as a first version usually does: one process, a lock
// around the nonce, and the calls in the order of a tutorial. It pays twice when
// an answer is lost, and stops when a transaction is stuck.
type reference struct {
	*ethclient.Client
	chain *devnet.Chain
	save  time.Duration // of storing a payment

	mu          sync.Mutex // one payment at a time: the nonce
	quoted      time.Time
	tip, feeCap *big.Int
}

// newReference returns a payer from the chain's first wallet.
func newReference(b *testing.B, c *devnet.Chain, d distance) *reference {
	b.Helper()
	wire := &http.Client{Transport: &rig{next: ethrpc.NewTransport(), distance: d, calls: map[string]int{}}}
	return &reference{Client: ethclient.NewClient(must(rpc.DialOptions(b.Context(), c.URL(), rpc.WithHTTPClient(wire)))(b)), chain: c,
		save: d.store}
}

// pay counts, estimates, signs, sends and saves.
func (p *reference) pay(ctx context.Context, n int) error {
	wallet, chainID, contract := p.chain.Wallets()[0], new(big.Int).SetUint64(p.chain.ID()), common.Address(p.chain.Token().Contract)
	key, err := crypto.ToECDSA(wallet.Key[:])
	if err != nil {
		return err
	}
	data := chain.TransferData(token.Address(common.HexToAddress(payee)), token.Units(uint64(base+n)))
	p.mu.Lock()
	defer p.mu.Unlock()
	nonce, err := p.PendingNonceAt(ctx, common.Address(wallet.Address))
	if err == nil && time.Since(p.quoted) > 2*time.Second { // a block, as long as Remit keeps fees
		tip, err1 := p.SuggestGasTipCap(ctx)
		head, err2 := p.HeaderByNumber(ctx, nil)
		if err = errors.Join(err1, err2); err == nil {
			p.quoted, p.tip, p.feeCap = time.Now(), tip, new(big.Int).Add(new(big.Int).Mul(head.BaseFee, big.NewInt(2)), tip)
		}
	}
	if err != nil {
		return err
	}
	gas, err := p.EstimateGas(ctx, ethereum.CallMsg{From: common.Address(wallet.Address), To: &contract, Data: data})
	if err != nil {
		return err
	}
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, GasTipCap: p.tip, GasFeeCap: p.feeCap, Gas: gas + gas/5, To: &contract, Data: data,
	})
	if err == nil {
		err = p.SendTransaction(ctx, tx)
	}
	time.Sleep(p.save)
	return err
}
