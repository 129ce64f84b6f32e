// Package reference is what people write first when they have to pay out
// tokens: one process, a lock around the nonce, and the calls in the order of
// the tutorial. It is what benchmarks compare Remit with, and nothing else
// should be done with it: it pays twice when an answer is lost, and stops when
// one transaction is stuck.
package reference

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
)

// A Payment is what is saved.
type Payment struct {
	Key, Hash, To string
	Amount        uint64
}

// A Payer serves POST /send-payment from one wallet.
type Payer struct {
	client  *ethclient.Client
	chainID *big.Int
	token   common.Address
	key     *ecdsa.PrivateKey
	from    common.Address
	save    func(Payment)

	mu     sync.Mutex // one payment at a time: the nonce
	quoted time.Time
	tip    *big.Int
	feeCap *big.Int
}

// quoteFor is how long fees are kept. Asking each time would be one or two more
// round trips under the lock.
const quoteFor = 2 * time.Second

// New returns a payer over the node at url. save stores a payment, and takes
// as long as that takes.
func New(ctx context.Context, url string, transport http.RoundTripper, token [20]byte, key [32]byte, save func(Payment)) (*Payer, error) {
	conn, err := rpc.DialOptions(ctx, url, rpc.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		return nil, fmt.Errorf("opening the node: %w", err)
	}
	client := ethclient.NewClient(conn)
	chainID, err := client.ChainID(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the chain id: %w", err)
	}
	private, err := crypto.ToECDSA(key[:])
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	return &Payer{client: client, chainID: chainID, token: token, key: private,
		from: crypto.PubkeyToAddress(private.PublicKey), save: save}, nil
}

// ServeHTTP makes one payment.
func (p *Payer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		To     string `json:"to"`
		Amount uint64 `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !common.IsHexAddress(body.To) {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	hash, err := p.pay(r.Context(), common.HexToAddress(body.To), body.Amount, r.Header.Get("Idempotency-Key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"tx_hash": hash, "status": "pending"})
}

// pay is the tutorial: count, estimate, sign, send, save.
func (p *Payer) pay(ctx context.Context, to common.Address, amount uint64, key string) (string, error) {
	data := append([]byte{0xa9, 0x05, 0x9c, 0xbb}, common.LeftPadBytes(to.Bytes(), 32)...)
	data = append(data, common.LeftPadBytes(new(big.Int).SetUint64(amount).Bytes(), 32)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	nonce, err := p.client.PendingNonceAt(ctx, p.from)
	if err != nil {
		return "", fmt.Errorf("asking for the nonce: %w", err)
	}
	if err := p.fees(ctx); err != nil {
		return "", err
	}
	gas, err := p.client.EstimateGas(ctx, ethereum.CallMsg{From: p.from, To: &p.token, Data: data})
	if err != nil {
		return "", fmt.Errorf("estimating: %w", err)
	}
	tx, err := types.SignNewTx(p.key, types.LatestSignerForChainID(p.chainID), &types.DynamicFeeTx{
		ChainID: p.chainID, Nonce: nonce, GasTipCap: p.tip, GasFeeCap: p.feeCap, Gas: gas + gas/5, To: &p.token, Data: data,
	})
	if err != nil {
		return "", fmt.Errorf("signing: %w", err)
	}
	if err := p.client.SendTransaction(ctx, tx); err != nil {
		return "", fmt.Errorf("sending: %w", err)
	}
	p.save(Payment{Key: key, Hash: tx.Hash().Hex(), To: to.Hex(), Amount: amount})
	return tx.Hash().Hex(), nil
}

// fees asks for the price of a block when the last answer is old.
func (p *Payer) fees(ctx context.Context) error {
	if time.Since(p.quoted) < quoteFor {
		return nil
	}
	tip, err := p.client.SuggestGasTipCap(ctx)
	if err != nil {
		return fmt.Errorf("asking for the tip: %w", err)
	}
	head, err := p.client.HeaderByNumber(ctx, nil)
	if err != nil {
		return fmt.Errorf("asking for the base fee: %w", err)
	}
	p.tip, p.quoted = tip, time.Now()
	p.feeCap = new(big.Int).Add(new(big.Int).Mul(head.BaseFee, big.NewInt(2)), tip)
	return nil
}
