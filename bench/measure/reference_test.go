package measure_test

import (
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"remit/internal/devnet"
)

// reference pays out tokens as a first version usually does: one process, a lock
// around the nonce, and the calls in the order of a tutorial. It pays twice when
// an answer is lost, and stops when a transaction is stuck.
type reference struct {
	*ethclient.Client
	chain *devnet.Chain
	key   [32]byte
	save  time.Duration // how long storing a payment takes

	mu     sync.Mutex // one payment at a time: the nonce
	quoted time.Time
	tip    *big.Int
	feeCap *big.Int
}

// newReference returns a payer from the chain's first wallet, as far away from
// its services as d says.
func newReference(b *testing.B, c *devnet.Chain, d distance, transport http.RoundTripper) *reference {
	conn, err := rpc.DialOptions(b.Context(), c.URL(), rpc.WithHTTPClient(&http.Client{Transport: &rig{next: transport, distance: d}}))
	if err != nil {
		b.Fatal(err)
	}
	return &reference{Client: ethclient.NewClient(conn), chain: c, key: c.Wallets()[0].Key, save: d.store}
}

// ServeHTTP makes one payment.
func (p *reference) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		To     common.Address `json:"to"`
		Amount uint64         `json:"amount"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	if err == nil {
		err = p.pay(r.Context(), body.To, body.Amount)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// pay counts, estimates, signs, sends and saves.
func (p *reference) pay(ctx context.Context, to common.Address, amount uint64) error {
	key, err := crypto.ToECDSA(p.key[:])
	if err != nil {
		return err
	}
	from, chainID, contract := crypto.PubkeyToAddress(key.PublicKey), new(big.Int).SetUint64(p.chain.ID()), common.Address(p.chain.Token().Contract)
	data := append([]byte{0xa9, 0x05, 0x9c, 0xbb}, common.LeftPadBytes(to.Bytes(), 32)...) // transfer(address,uint256)
	data = append(data, common.LeftPadBytes(new(big.Int).SetUint64(amount).Bytes(), 32)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	nonce, err := p.PendingNonceAt(ctx, from)
	if err != nil {
		return err
	}
	if time.Since(p.quoted) > 2*time.Second { // as long as Remit keeps fees: a block
		if p.tip, err = p.SuggestGasTipCap(ctx); err != nil {
			return err
		}
		head, err := p.HeaderByNumber(ctx, nil)
		if err != nil {
			return err
		}
		p.quoted, p.feeCap = time.Now(), new(big.Int).Add(new(big.Int).Mul(head.BaseFee, big.NewInt(2)), p.tip)
	}
	gas, err := p.EstimateGas(ctx, ethereum.CallMsg{From: from, To: &contract, Data: data})
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
