package devnet_test

import (
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/token"
)

// receipts asks for many receipts in one batch; nil where there is none.
func (p *payer) receipts(hashes []common.Hash) []*types.Receipt {
	p.t.Helper()
	receipts := make([]*types.Receipt, len(hashes))
	batch := make([]rpc.BatchElem, len(hashes))
	for i, hash := range hashes {
		batch[i] = rpc.BatchElem{Method: "eth_getTransactionReceipt", Args: []any{hash}, Result: &receipts[i]}
	}
	if err := p.client.Client().BatchCallContext(p.t.Context(), batch); err != nil {
		p.t.Fatal(err)
	}
	for i := range batch {
		if batch[i].Error != nil {
			p.t.Fatalf("receipt %d: %v", i, batch[i].Error)
		}
	}
	return receipts
}

func TestBurstLeavesNoHole(t *testing.T) {
	p := open(t, devnet.Config{})
	const burst = 500
	var hashes []common.Hash
	batch := make([]rpc.BatchElem, burst)
	for i := range burst {
		tx := p.signed(0, friend, uint64(i)+1)
		raw, err := tx.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, tx.Hash())
		// Last nonce first: the pool must keep what it cannot use yet.
		batch[burst-1-i] = rpc.BatchElem{Method: "eth_sendRawTransaction", Args: []any{"0x" + common.Bytes2Hex(raw)}, Result: new(common.Hash)}
	}
	if err := p.client.Client().BatchCallContext(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	p.mine()
	for i, r := range p.receipts(hashes) {
		if r == nil || r.Status != types.ReceiptStatusSuccessful {
			t.Fatalf("payment %d: %+v; want mined in the next block", i, r)
		}
	}
	transfers, err := p.TransferLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[chain.Hash]uint64)
	for _, transfer := range transfers {
		units, _ := transfer.Amount.Uint64()
		seen[transfer.Tx] += units
	}
	for i, hash := range hashes {
		if got := seen[chain.Hash(hash)]; got != uint64(i)+1 {
			t.Errorf("payment %d logged %d units; want %d", i, got, i+1)
		}
	}
	if len(transfers) != burst {
		t.Errorf("%d transfers; want %d", len(transfers), burst)
	}
}

func TestAGapHoldsUpWhatFollows(t *testing.T) {
	p := open(t, devnet.Config{})
	first, second := p.signed(0, friend, 1), p.signed(0, friend, 2)
	hash := p.send(second)
	p.mine()
	if got := p.status(hash); got != "pending" {
		t.Errorf("with a nonce missing before it, it has %s; want pending", got)
	}
	p.send(first)
	p.mine()
	if got := p.status(hash); got != "succeeded" {
		t.Errorf("after the gap is filled it has %s; want succeeded", got)
	}
}

func TestReorgMakesPaymentsPendingAgain(t *testing.T) {
	p := open(t, devnet.Config{})
	a := p.pay(friend, 1)
	p.mine()
	b := p.pay(friend, 2)
	p.mine()
	p.mine()
	p.must(p.Reorg(2)) // b's block and the empty one
	if a, b := p.status(a), p.status(b); a != "succeeded" || b != "pending" {
		t.Errorf("after a reorg of 2 the payments have %s and %s; want the second pending", a, b)
	}
	p.mine()
	if got := p.status(b); got != "succeeded" {
		t.Errorf("a block later it has %s; want mined again", got)
	}
	p.must(p.Reorg(1))
	p.DropPending()
	p.mine()
	if got := p.status(b); got != "pending" {
		t.Errorf("after being dropped it has %s; want unknown", got)
	}
	if _, _, err := p.client.TransactionByHash(t.Context(), common.Hash(b)); err == nil {
		t.Error("a dropped payment is still known")
	}
	if err := p.Reorg(devnet.MaxReorg + 1); err == nil {
		t.Error("a reorg deeper than MaxReorg was made")
	}
	if err := p.Reorg(int(p.Head().Number)); err == nil {
		t.Error("a reorg took the token away")
	}
}

func TestTagsLieBehindTheHead(t *testing.T) {
	p := open(t, devnet.Config{})
	for range 9 {
		p.mine()
	}
	number := func(tag rpc.BlockNumber) uint64 {
		h, err := p.client.HeaderByNumber(t.Context(), big.NewInt(tag.Int64()))
		if err != nil {
			t.Fatal(err)
		}
		return h.Number.Uint64()
	}
	got := []uint64{number(rpc.LatestBlockNumber), number(rpc.SafeBlockNumber), number(rpc.FinalizedBlockNumber)}
	if diff := cmp.Diff([]uint64{10, 8, 6}, got); diff != "" {
		t.Errorf("latest, safe, finalized (-want +got):\n%s", diff)
	}
}

func TestBaseFeeRises(t *testing.T) {
	p := open(t, devnet.Config{})
	before, err := p.BaseFee()
	if err != nil {
		t.Fatal(err)
	}
	target := before.ScaleUp(8, 1)
	tx := p.pay(friend, 5)
	start := p.Head()
	p.must(p.RaiseBaseFee(target))
	if after, err := p.BaseFee(); err != nil || after.Less(target) {
		t.Errorf("the base fee is %s, %v; want at least %s", after, err, target)
	}
	if blocks := p.Head().Number - start.Number; blocks > 20 {
		t.Errorf("eightfold took %d blocks; want 18", blocks)
	}
	if got := p.status(tx); got != "pending" {
		t.Errorf("what was pending has %s", got)
	}
}

// TestServiceAnswers walks through the methods that Remit uses.
func TestServiceAnswers(t *testing.T) {
	p := open(t, devnet.Config{})
	wallet := p.Wallets()[0].Address.String()
	p.pay(friend, 5)
	for _, row := range []struct {
		method string
		args   []any
		want   string // empty: anything but an error or null
	}{
		{"eth_chainId", nil, `"0x539"`},
		{"net_version", nil, `"1337"`},
		{"web3_clientVersion", nil, `"remit-devnet/1"`},
		{"eth_blockNumber", nil, `"0x1"`},
		{"eth_getTransactionCount", []any{wallet, "latest"}, `"0x0"`},
		{"eth_getTransactionCount", []any{wallet, "pending"}, `"0x1"`},
		{"eth_getTransactionCount", []any{wallet, "0x1"}, `"0x0"`},
		{"eth_getTransactionCount", []any{wallet, "finalized"}, `"0x0"`},
		{"eth_getTransactionReceipt", []any{common.Hash{1}}, `null`},
		{"eth_getTransactionByHash", []any{common.Hash{1}}, `null`},
		{"eth_getBalance", []any{wallet, "latest"}, `"0x3635c9adc5dea00000"`},
		{"eth_feeHistory", []any{"0x5", "latest", []float64{50}}, ""},
		{"eth_maxPriorityFeePerGas", nil, ""},
		{"eth_gasPrice", nil, ""},
		{"eth_getBlockByNumber", []any{"latest", false}, ""},
		{"eth_getBlockByNumber", []any{"safe", false}, ""},
		{"eth_getBlockByNumber", []any{"finalized", false}, ""},
		{"eth_getBlockByHash", []any{p.Head().Hash.String(), false}, ""},
		{"eth_getLogs", []any{map[string]any{"fromBlock": "0x0", "address": p.Token().Contract.String()}}, ""},
	} {
		var got json.RawMessage
		if err := p.client.Client().CallContext(t.Context(), &got, row.method, row.args...); err != nil {
			t.Errorf("%s%v: %v", row.method, row.args, err)
		} else if row.want != "" && string(got) != row.want || row.want == "" && string(got) == "null" {
			t.Errorf("%s%v = %s; want %s", row.method, row.args, got, row.want)
		}
	}
	for _, method := range []string{"admin_startHTTP", "debug_setHead", "miner_setExtra", "engine_newPayloadV3"} {
		if err := p.client.Client().CallContext(t.Context(), nil, method); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s: %v; want no such method", method, err)
		}
	}
}

// TestReceiptsAreTheNodes compares what is answered in the node's stead with
// what the node says about the whole block.
func TestReceiptsAreTheNodes(t *testing.T) {
	p := open(t, devnet.Config{})
	p.pay(friend, 5)
	p.pay(devnet.RevertRecipient, 5)
	p.mine()
	compared := 0
	for block := range p.Head().Number + 1 {
		var whole []any
		if err := p.client.Client().CallContext(t.Context(), &whole, "eth_getBlockReceipts", rpc.BlockNumber(block)); err != nil {
			t.Fatal(err)
		}
		for _, want := range whole {
			var got any
			hash := want.(map[string]any)["transactionHash"]
			if err := p.client.Client().CallContext(t.Context(), &got, "eth_getTransactionReceipt", hash); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("block %d, %s (-node +got):\n%s", block, hash, diff)
			}
			compared++
		}
	}
	if compared < 8 {
		t.Errorf("compared %d receipts; want those of the deployment, five calls and two payments", compared)
	}
}

func TestServiceRefusesForeignHostNames(t *testing.T) {
	p := open(t, devnet.Config{})
	for host, want := range map[string]int{
		"127.0.0.1:8545": http.StatusOK,
		"localhost:8545": http.StatusOK,
		"localhost":      http.StatusOK,
		"[::1]:8545":     http.StatusOK,
		"[::1]":          http.StatusOK,
		"evil.example":   http.StatusForbidden, // its DNS may say 127.0.0.1
	} {
		body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(), body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("Host %s: %d; want %d", host, answer.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFactsAreWhatSandboxAnswers(t *testing.T) {
	p := open(t, devnet.Config{Wallets: 1})
	facts, err := p.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	for v, text := range map[*any]string{&got: marshal(t, facts), &want: `{
		"rpc_url": "` + p.URL() + `",
		"chain_id": 1337,
		"token": {"address": "` + p.Token().Contract.String() + `", "symbol": "USDC", "decimals": 6},
		"wallets": [{
			"address": "0xC85186Ecd6f3a98d768F1f61F45d850a67817e4e",
			"token_balance": 1000000000000,
			"gas_balance": 1000000000000000000000
		}],
		"block_time_seconds": 0,
		"recipients": [
			{"address": "0x7e57000000000000000000000000000000000001", "behaviour": "revert"},
			{"address": "0x7e57000000000000000000000000000000000002", "behaviour": "stuck"},
			{"address": "0x7e57000000000000000000000000000000000003", "behaviour": "reorg"}
		]}`} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if text := marshal(t, p.WithPrivateKeys(facts)); !strings.Contains(text, `"private_keys":["`+p.Wallets()[0].PrivateKey()+`"]`) {
		t.Errorf("no keys although asked for: %s", text)
	}
	for _, r := range facts.Recipients {
		if _, err := token.ParseAddress(r.Address.String()); err != nil || r.Address.IsPrecompile() {
			t.Errorf("%s is no recipient: %v", r.Address, err)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	open(t, devnet.Config{}) // starts what go-ethereum keeps for the life of the process
	before := goroutines()
	c, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 10 * time.Millisecond, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// One that has done its last statement may still be counted.
	for tries := 0; len(goroutines()) > len(before); tries++ {
		if tries == 1000 {
			t.Fatalf("%d goroutines before, %d after:\n%s", len(before), len(goroutines()), strings.Join(goroutines(), "\n\n"))
		}
		time.Sleep(time.Millisecond)
	}
}

// goroutines returns the stacks of all goroutines but those that go-ethereum's
// node database leaves behind for a second.
func goroutines() []string {
	buf := make([]byte, 4<<20)
	var stacks []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(stack, "mpoolDrain") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
