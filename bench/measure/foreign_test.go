package measure_test

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
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

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// nodeKinds are the nodes that the acceptance run knows. Blocks are made when the run asks for one. Each command gets
// a port and a chain id. Where gas is paid in the token, only the embedded chain can be a node: the others have a
// balance of ether beside it.
var nodeKinds = []struct {
	name, title string
	command     func(dir string, port int, id uint64) []string // nil for the embedded chain
	until       string                                         // beginning of the line that says it serves
	reorg       func(n *testNode) error                        // makes a block that is seen, and takes it back; nil where the node cannot
	tokenGas    bool
}{
	{name: "remit", title: "embedded chain (go-ethereum)"},
	{name: arc, title: "embedded chain, gas paid in the token", tokenGas: true},
	{name: "anvil", title: "anvil 1.7.1", until: "Listening on", reorg: replace, command: func(dir string, port int, id uint64) []string {
		return []string{filepath.Join(dir, "@foundry-rs", "anvil-linux-amd64", "bin", "anvil"), "--port", fmt.Sprint(port), "--chain-id",
			fmt.Sprint(id), "--no-mining"}
	}},
	{name: "hardhat", title: "Hardhat 2.29.0", until: "Started HTTP", reorg: rewind, command: func(dir string, port int, id uint64) []string {
		return []string{"env", "-C", filepath.Dir(dir), "NO_COLOR=1", fmt.Sprint("REMIT_CHAIN_ID=", id), filepath.Join(dir, ".bin", "hardhat"),
			"node", "--hostname", "127.0.0.1", "--port", fmt.Sprint(port)}
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
	flags   []string // of the server
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
			c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: wallets, ChainID: id, Seed: fmt.Sprint(id),
				TokenGas: k.tokenGas, Now: time.Now}))(t)
			if k.tokenGas {
				n.flags = []string{"--chain", k.name}
			}
			t.Cleanup(func() { _ = c.Close() })
			n.facts = c.WithPrivateKeys(must.Get(c.Facts(t.Context()))(t))
			n.Client = must.Get(ethclient.Dial(c.URL()))(t)
			n.mine, n.reorg = c.Mine, func() error { return errors.Join(n.show(), c.Reorg(1)) }
		default:
			port := ownPort(t)
			command := k.command(must.Get(filepath.Abs(filepath.Join(root, ".cache", "nodes", "node_modules")))(t), port, id)
			p, _, err := start(t.Context(), log, k.until, command[0], command[1:]...)
			must.OK(t, err)
			t.Cleanup(p.Kill)
			n.facts = devnet.Facts{RPCURL: fmt.Sprint("http://127.0.0.1:", port), ChainID: id}
			n.Client = must.Get(ethclient.Dial(n.facts.RPCURL))(t)
			n.mine = func() error { return n.Client.Client().Call(nil, "evm_mine") }
			if n.reorg = func() error { return nil }; k.reorg != nil {
				n.reorg = func() error { return k.reorg(n) }
			}
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

// still sets whether blocks are made by themselves.
func (n *testNode) still(stopped bool) {
	n.blocks.Lock()
	defer n.blocks.Unlock()
	n.stopped = stopped
}

// fork makes a block, lets it be seen, and replaces it by empty ones.
func (n *testNode) fork() error {
	n.blocks.Lock()
	defer n.blocks.Unlock()
	return errors.Join(n.reorg(), n.mine(), n.mine())
}

// show makes a block and lets it be seen.
func (n *testNode) show() error {
	defer time.Sleep(600 * time.Millisecond)
	return n.mine()
}

// replace makes a block, lets it be seen, and has anvil replace it by an empty one.
func replace(n *testNode) error {
	return errors.Join(n.show(), n.Client.Client().Call(nil, "anvil_reorg", 1, []any{}))
}

// rewind makes a block, lets it be seen, and goes back to before it.
func rewind(n *testNode) error {
	var snapshot string
	err := errors.Join(n.Client.Client().Call(&snapshot, "evm_snapshot"), n.show())
	return errors.Join(err, n.Client.Client().Call(nil, "evm_revert", snapshot))
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
	n.deployDeployer(t, func(tx types.DynamicFeeTx) { send(owner, tx) })
	for range wallets {
		key := must.Get(crypto.GenerateKey())(t)
		address := crypto.PubkeyToAddress(key.PublicKey)
		mint := must.Get(compiled.ABI.Pack("mint", address, big.NewInt(1e12)))(t)
		send(owner, types.DynamicFeeTx{To: &contract, Data: mint, Gas: 200_000})
		send(owner, types.DynamicFeeTx{To: &address, Gas: 21_000, Value: new(big.Int).SetUint64(gas)})
		facts := devnet.WalletFacts{Address: token.Address(address), GasBalance: token.Units(gas)}
		n.facts.Wallets = append(n.facts.Wallets, facts)
		n.facts.PrivateKeys = append(n.facts.PrivateKeys, "0x"+hex.EncodeToString(crypto.FromECDSA(key)))
	}
}

// deployDeployer puts the deterministic deployer on a chain that lacks it, by the transaction that its authors have
// signed for every chain: its signature is made up, so that nobody has the key of its sender
// (https://github.com/Arachnid/deterministic-deployment-proxy).
func (n *testNode) deployDeployer(t testing.TB, send func(types.DynamicFeeTx)) {
	t.Helper()
	code := func() []byte { return must.Get(n.CodeAt(t.Context(), common.Address(disburser.Deployer()), nil))(t) }
	if len(code()) > 0 {
		return
	}
	twos := new(big.Int).SetBytes(bytes.Repeat([]byte{0x22}, 32))
	tx := types.NewTx(&types.LegacyTx{GasPrice: big.NewInt(100 * params.GWei), Gas: 100_000,
		Data: append(common.FromHex("604580600e600039806000f350fe"), disburser.DeployerCode()...), V: big.NewInt(27), R: twos, S: twos})
	from := must.Get(types.Sender(types.HomesteadSigner{}, tx))(t)
	send(types.DynamicFeeTx{To: &from, Gas: 21_000, Value: tx.Cost()})
	must.OK(t, errors.Join(n.SendTransaction(t.Context(), tx), n.mine()))
	if got := code(); !bytes.Equal(got, disburser.DeployerCode()) {
		t.Fatalf("deploying the deployer: code %x", got)
	}
}
