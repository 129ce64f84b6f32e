package measure_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/params"

	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

var (
	nodesFlag  = flag.String("nodes", "remit", "comma-separated nodes of the run: remit, arc, anvil, hardhat")
	habitsFlag = flag.String("habits", "", "habits of the acceptance run, comma-separated and without commas of their own; empty for all")
)

// settleWithin is how long payments may take to settle once they are all made.
const settleWithin = 2 * time.Minute

// rateLimited is the habit whose payments are all made before it begins.
const rateLimited = "3 calls a batch, 20 requests a second"

// BenchmarkNodes is the acceptance run: payments through nodes of several authors, each behind a gateway with one habit
// after the other. Clients give up, ask twice and ask again; the server is killed twice with SIGKILL; one transaction
// in ten gets lost; one block is replaced. In the end every payment that a client asked for is mined once, settled and
// announced, with its hash, no wallet is paused and nothing is left over. Every tenth payment is a batch of 2 to 100
// entries, through the contract that `remit batch deploy` makes. docs/chains.md shows the runs.
func BenchmarkNodes(t *testing.B) {
	page, wanted := string(must.Get(os.ReadFile(root+"/docs/chains.md"))(t)), strings.Split(*habitsFlag, ",")
	remit := build(t, nil, "github.com/remit-payouts/remit/cmd/remit")
	for kind := range strings.SplitSeq(*nodesFlag, ",") {
		for _, h := range habits {
			if h.TokenGas && kind != arc || wanted[0] != "" && !slices.Contains(wanted, strings.ReplaceAll(h.Name, ",", "")) {
				continue
			}
			if !strings.Contains(page, "\n| "+h.Name+" ") {
				t.Errorf("docs/chains.md has no row of %q", h.Name)
			}
			for tries, again := 1, true; again; tries++ {
				again = false
				t.Run(kind+"/"+h.Name, func(t *testing.B) {
					begin := time.Now()
					n, broken := accept(t, remit, kind, h)
					found := slices.Concat(slices.Collect(maps.Values(broken))...)
					if tries < 3 && slices.Equal(found, []string{noNoop}) {
						again = true
						say("%s, %s: again, since %s", kind, h.Name, noNoop)
						return
					}
					for promise, found := range broken {
						if len(found) > 0 {
							t.Errorf("%s: %d: %.1000q", promise, len(found), found[:min(3, len(found))])
						}
					}
					say("%s, %s: %d in %.0f s %v", kind, h.Name, n, time.Since(begin).Seconds(), broken)
				})
			}
		}
	}
}

// noNoop reports a run that shows nothing, since by chance no request of a pair came too late.
const noNoop = "no nonce was left to a no-op"

// accept pays through a node with a habit. It returns how many payments it asked for, and the broken promises.
func accept(t *testing.B, remit, kind string, h habit) (int, map[string][]string) {
	payments, wallets := 60, 2
	switch h.Name {
	case "none":
		payments = 500
	case rateLimited:
		payments, wallets = 200, 1
	}
	t.Logf("-seed=%d", *seed)
	v := newVictim(t, "nodes-"+kind+"-"+strings.NewReplacer(" ", "-", ",", "").Replace(h.Name))
	n := startNode(t, v.log.Writer(), kind, wallets)
	v.chain, v.node, v.within = n.facts, n.Client, settleWithin
	honest := habits[0]
	g := newGateway(t, n.facts.RPCURL, h)
	args := append(n.flags(t), "--rpc", g.URL, "--batch-contract", install.Address().String())
	if h.Name == rateLimited {
		g.adopt(honest) // until the wallets pay batches
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // for the clients
	defer cancel()
	if err := v.open(t.Context(), t, remit, args...); err != nil {
		v.breaks("starting the server", "%v", err)
		return payments, v.broken
	}
	v.orders, v.batches = make([][]string, payments), true
	if err := v.enableBatches(ctx); err != nil {
		v.breaks("batches by `remit batch`", "%v", err)
		return payments, v.broken
	}
	n.still(h.Name == rateLimited)
	var load sync.WaitGroup
	load.Go(func() {
		_ = each(ctx, 16, payments, func(ctx context.Context, i int) error {
			draw := rand.New(rand.NewPCG(*seed, uint64(i)))
			var both sync.WaitGroup
			if draw.IntN(100) < doubled || h.Twins {
				twin := rand.New(rand.NewPCG(draw.Uint64(), draw.Uint64()))
				both.Go(func() { v.pursue(ctx, i, twin) })
			}
			v.pursue(ctx, i, draw)
			both.Wait()
			return nil
		})
	})
	again := func() error { v.server.Kill(); return v.serve(t.Context()) }
	fork := func() error {
		n.blocks.Lock()
		defer n.blocks.Unlock()
		return errors.Join(n.reorg(), n.mine(), n.mine())
	}
	for i, trouble := range []func() error{again, fork, again} {
		if h.Name == rateLimited && i == 1 {
			continue // no block is made yet
		}
		for v.answered() < (i+1)*payments/4 && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		if err := trouble(); err != nil {
			v.breaks("the run itself", "trouble %d: %v", i, err)
			return payments, v.broken
		}
	}
	load.Wait()
	v.askAgain(ctx)
	for i := range v.orders {
		if v.answer(i) == "" {
			v.breaks("payments not answered 201 within four minutes", "order-%d", i)
		}
	}
	ctx = t.Context()
	if h.Name == rateLimited {
		g.adopt(h)
		n.still(false)
	}
	must.OK(t, v.drain(ctx))
	must.Get(v.audit(ctx, true))(t)
	if h.TokenGas {
		// It leaves two fees. A stack that believes in a balance of ether beside the token leaves none.
		must.Get(v.operate(ctx, "wallet", "move", v.chain.Wallets[0].Address.String(),
			"--token", "all", "--to", stranger, "--key", fmt.Sprint("all-", v.chain.ChainID)))(t)
		must.OK(t, v.drain(ctx))
	}
	g.adopt(honest) // an audit asks every node, and takes no silence for an answer
	v.auditBooks(ctx)
	if h.Twins && v.noops == 0 && len(v.broken["payments answered 201 and not mined"]) == 0 {
		v.breaks("the run itself", noNoop)
	}
	v.auditAPI(ctx)
	v.log.Printf("%d requests through the gateway, %d transactions lost", g.requests.Load(), g.lost.Load())
	return payments, v.broken
}

// operate gives an operator's command and returns its output.
func (v *victim) operate(ctx context.Context, command ...string) (string, error) {
	said, err := exec.CommandContext(ctx, v.command[0], append(command, "--yes", "--stack", v.merchant.URL)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("remit %v: %w: %s", command, err, said)
	}
	v.log.Printf("remit %v: %s", command, said)
	return string(said), err
}

// enableBatches has an operator make the contract and give each wallet's allowance, and awaits that all is confirmed.
func (v *victim) enableBatches(ctx context.Context) error {
	for said := ""; !strings.Contains(said, "The contract is there"); sleep(ctx, 100*time.Millisecond) {
		var err error
		key := fmt.Sprint("deploy-", v.chain.ChainID) // all runs share the tables
		if said, err = v.operate(ctx, "batch", "deploy", v.chain.Wallets[0].Address.String(), "--key", key); err != nil {
			return err
		}
	}
	for i, w := range v.chain.Wallets {
		if _, err := v.operate(ctx, "batch", "approve", w.Address.String(), "--amount", "unlimited", "--key",
			fmt.Sprint("approve-", v.chain.ChainID, i)); err != nil {
			return err
		}
	}
	return v.settled(ctx)
}

// settled returns when the tables hold nothing unfinished, or ctx ends.
func (v *victim) settled(ctx context.Context) error {
	for ctx.Err() == nil {
		if left, err := v.unfinished(ctx); err == nil && len(left) == 0 {
			break
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}

// answered returns how many payments have an answer.
func (v *victim) answered() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, hashes := range v.orders {
		n += min(1, len(hashes))
	}
	return n
}

// nodeKinds are the run's nodes. Blocks are made when the run asks for one. Each command gets a port and a chain id.
// Where gas is paid in the token, only the embedded chain can be a node: the others have a balance of ether beside it.
var nodeKinds = []struct {
	name     string
	command  func(dir string, port int, id uint64) []string // nil for the embedded chain
	until    string                                         // beginning of the line that says it serves
	reorg    func(n *testNode) error                        // makes a block that is seen, and takes it back
	tokenGas bool
}{
	{name: "remit"},
	{name: arc, tokenGas: true},
	{name: "anvil", until: "Listening on", reorg: func(n *testNode) error {
		return errors.Join(n.show(), n.Client.Client().Call(nil, "anvil_reorg", 1, []any{})) // for an empty one
	}, command: func(dir string, port int, id uint64) []string {
		return []string{filepath.Join(dir, "@foundry-rs", "anvil-linux-amd64", "bin", "anvil"),
			"--port", fmt.Sprint(port), "--chain-id", fmt.Sprint(id), "--no-mining"}
	}},
	{name: "hardhat", until: "Started HTTP", reorg: func(n *testNode) error {
		var snapshot string
		err := errors.Join(n.Client.Client().Call(&snapshot, "evm_snapshot"), n.show())
		return errors.Join(err, n.Client.Client().Call(nil, "evm_revert", snapshot))
	}, command: func(dir string, port int, id uint64) []string {
		return []string{"env", "-C", filepath.Dir(dir), "NO_COLOR=1", fmt.Sprint("REMIT_CHAIN_ID=", id),
			filepath.Join(dir, ".bin", "hardhat"), "node", "--hostname", "127.0.0.1", "--port", fmt.Sprint(port)}
	}},
}

// arc is the node on which gas is paid in the token.
const arc = "arc"

// funded is the first key of the mnemonic "test test test test test test test test
// test test test junk", to which development nodes give ether.
const funded = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

// A testNode is a running node with a token and paying wallets of its own.
type testNode struct {
	*ethclient.Client
	facts   devnet.Facts
	chain   []string // flags of the server
	mine    func() error
	reorg   func() error // makes a block that is seen, and replaces it
	blocks  sync.Mutex   // held while blocks are made
	stopped bool         // no block is made by itself
}

// startNode starts a node of a kind, with so many wallets, until the test ends.
func startNode(t testing.TB, log io.Writer, kind string, wallets int) *testNode {
	t.Helper()
	n := &testNode{}
	// Of its own, since all runs share the tables; of a development chain (package chains).
	id := 31337_000_000_000 + rand.Uint64N(1_000_000_000)
	for _, k := range nodeKinds {
		switch {
		case k.name != kind:
		case k.command == nil:
			c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0",
				Wallets: wallets, ChainID: id, Seed: fmt.Sprint(id), TokenGas: k.tokenGas, Now: time.Now}))(t)
			if k.tokenGas {
				n.chain = []string{"--chain", k.name}
			}
			t.Cleanup(func() { _ = c.Close() })
			n.facts = must.Get(c.Facts(t.Context()))(t)
			n.Client = must.Get(ethclient.Dial(c.URL()))(t)
			n.mine, n.reorg = c.Mine, func() error { return errors.Join(n.show(), c.Reorg(1)) }
		default:
			port := ownPort(t)
			command := k.command(must.Get(filepath.Abs(filepath.Join(root, ".cache", "nodes", "node_modules")))(t), port, id)
			p, _, err := start(t.Context(), log, k.until, command[0], command[1:]...)
			must.OK(t, err)
			t.Cleanup(p.Kill)
			n.facts.RPCURL, n.facts.ChainID = fmt.Sprint("http://127.0.0.1:", port), id
			n.Client = must.Get(ethclient.Dial(n.facts.RPCURL))(t)
			n.mine = func() error { return n.Client.Client().Call(nil, "evm_mine") }
			n.reorg = func() error { return k.reorg(n) }
			n.deploy(t, wallets)
		}
	}
	if n.Client == nil {
		t.Fatalf("no node is called %q: see the flag -nodes", kind)
	}
	var mining sync.WaitGroup
	mining.Go(func() {
		for sleep(t.Context(), 500*time.Millisecond); t.Context().Err() == nil; sleep(t.Context(), 500*time.Millisecond) {
			n.blocks.Lock()
			if !n.stopped {
				_ = n.mine() // without a block payments do not settle, which the audit tells
			}
			n.blocks.Unlock()
		}
	})
	t.Cleanup(mining.Wait) // before the node ends
	return n
}

// flags returns those of a server on DynamoDB Local that pays from the node's wallets, all but its URL.
func (n *testNode) flags(t testing.TB) []string {
	file := filepath.Join(t.TempDir(), "wallets")
	must.OK(t, os.WriteFile(file, []byte(strings.Join(n.facts.PrivateKeys, "\n")+"\n"), 0o600))
	return append(n.chain, "--dynamodb", dynamotest.Start(t), "--wallet-file", file, "--confirmation-rule", "4")
}

// still sets whether blocks are made by themselves.
func (n *testNode) still(stopped bool) {
	n.blocks.Lock()
	defer n.blocks.Unlock()
	n.stopped = stopped
}

func (n *testNode) show() error {
	defer time.Sleep(600 * time.Millisecond)
	return n.mine()
}

// deploy puts the test token and the deterministic deployer on the chain and funds new wallets.
func (n *testNode) deploy(t testing.TB, wallets int) {
	t.Helper()
	var compiled struct {
		ABI      abi.ABI
		Bytecode hexutil.Bytes
	}
	contracts := filepath.Join(root, "internal", "sandbox", "devnet", "contracts")
	must.OK(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(contracts, "TestToken.json")))(t), &compiled))
	owner := crypto.ToECDSAUnsafe(common.FromHex(funded))
	contract := crypto.CreateAddress(crypto.PubkeyToAddress(owner.PublicKey), 0)
	n.facts.Token.Address = token.Address(contract)
	signer, nonces := types.LatestSignerForChainID(new(big.Int).SetUint64(n.facts.ChainID)), map[*ecdsa.PrivateKey]uint64{}
	send := func(key *ecdsa.PrivateKey, tx types.DynamicFeeTx) {
		t.Helper()
		tx.ChainID, tx.GasTipCap, tx.GasFeeCap, tx.Nonce = signer.ChainID(), big.NewInt(params.GWei), big.NewInt(100*params.GWei), nonces[key]
		nonces[key]++
		signed := must.Get(types.SignNewTx(key, signer, &tx))(t)
		must.OK(t, errors.Join(n.SendTransaction(t.Context(), signed), n.mine()))
		if receipt, err := n.TransactionReceipt(t.Context(), signed.Hash()); err != nil || receipt.Status != 1 {
			t.Fatalf("deploying the token: %s: %+v %v", signed.Hash(), receipt, err)
		}
	}
	const gas = 10 * params.Ether // of each wallet, in wei
	send(owner, types.DynamicFeeTx{Data: compiled.Bytecode, Gas: 5_000_000})
	// The deterministic deployer comes by the transaction that its authors signed for every chain. Its signature is
	// made up: nobody has the key of its sender (https://github.com/Arachnid/deterministic-deployment-proxy).
	code := func() []byte { return must.Get(n.CodeAt(t.Context(), common.Address(install.Deployer()), nil))(t) }
	if len(code()) == 0 {
		twos := new(big.Int).SetBytes(bytes.Repeat([]byte{0x22}, 32))
		tx := types.NewTx(&types.LegacyTx{GasPrice: big.NewInt(100 * params.GWei), Gas: 100_000,
			Data: append(common.FromHex("604580600e600039806000f350fe"), install.DeployerCode()...),
			V:    big.NewInt(27), R: twos, S: twos})
		from := must.Get(types.Sender(types.HomesteadSigner{}, tx))(t)
		send(owner, types.DynamicFeeTx{To: &from, Gas: 21_000, Value: tx.Cost()})
		must.OK(t, errors.Join(n.SendTransaction(t.Context(), tx), n.mine()))
	}
	if got := code(); !bytes.Equal(got, install.DeployerCode()) {
		t.Fatalf("deploying the deployer: code %x", got)
	}
	for range wallets {
		key := must.Get(crypto.GenerateKey())(t)
		address := crypto.PubkeyToAddress(key.PublicKey)
		mint := must.Get(compiled.ABI.Pack("mint", address, big.NewInt(1e12)))(t)
		send(owner, types.DynamicFeeTx{To: &contract, Data: mint, Gas: 200_000})
		send(owner, types.DynamicFeeTx{To: &address, Gas: 21_000, Value: new(big.Int).SetUint64(gas)})
		n.facts.Wallets = append(n.facts.Wallets, devnet.WalletFacts{Address: token.Address(address)})
		n.facts.PrivateKeys = append(n.facts.PrivateKeys, "0x"+hex.EncodeToString(crypto.FromECDSA(key)))
	}
}
