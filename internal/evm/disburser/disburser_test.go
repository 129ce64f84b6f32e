package disburser_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm/runtime"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

//go:embed contracts/Disburser.json
var artifact []byte

func readABI(t testing.TB, artifact []byte) abi.ABI {
	var compiled struct{ ABI abi.ABI }
	must.OK(t, json.Unmarshal(artifact, &compiled))
	return compiled.ABI
}

// entries are up to 100 random ones.
var entries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) disburser.Entry {
	to := rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "to")
	amount := must.Get(token.AmountFromBytes(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "amount")))(t)
	return disburser.Entry{To: token.Address(to), Amount: amount}
}), 1, 100)

func TestCallIsWhatTheContractReads(t *testing.T) {
	pay := readABI(t, artifact).Methods["pay"]
	rapid.Check(t, func(t *rapid.T) {
		coin := token.Address(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "coin"))
		want, id := entries.Draw(t, "entries"), rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "id")
		var words [][32]byte
		for _, e := range want {
			units := e.Amount.Bytes32()
			words = append(words, [32]byte(append(e.To[:], units[20:]...)))
		}
		packed, err := pay.Inputs.Pack(common.Address(coin), words)
		data := disburser.Calldata(coin, want, id)
		if err != nil || !bytes.Equal(data, append(append(pay.ID, packed...), id...)) {
			t.Fatalf("%x is not the call of the ABI, %v", data, err)
		}
		at, got, rest, ok := disburser.Parse(data)
		if !ok || at != coin || !cmp.Equal(got, want, cmp.Comparer(func(a, b token.Amount) bool { return a == b })) || !bytes.Equal(rest, id) {
			t.Fatalf("Parse says %v %v %x %v", at, got, rest, ok)
		}
		if _, _, _, ok := disburser.Parse(data[:len(data)-len(id)-1]); ok {
			t.Fatal("it parses without its last byte")
		}
		bit := rapid.IntRange(0, 8*(4+12+20)-1).Draw(t, "bit") // of the selector, or of the token's word
		data[bit/8] ^= 1 << (bit % 8)
		if at, _, _, ok := disburser.Parse(data); ok && at == coin {
			t.Fatalf("it parses with bit %d turned", bit)
		}
	})
}

func TestAnAmountThatDoesNotFit(t *testing.T) {
	over, err := disburser.MaxAmount().Add(token.Units(1))
	if err != nil || over.String() != "79228162514264337593543950336" {
		t.Fatal(over, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("an amount of 2^96 was cut to 0")
		}
	}()
	disburser.Calldata(token.Address{}, []disburser.Entry{{Amount: over}}, nil)
}

// newEVM returns a real EVM with nothing on it but the Deployer.
func newEVM(t testing.TB) *runtime.Config {
	db := must.Get(state.New(types.EmptyRootHash, state.NewDatabaseForTesting()))(t)
	evm := &runtime.Config{State: db, Origin: common.Address{1}, GasLimit: 30_000_000, Value: new(big.Int)}
	db.SetCode(common.Address(install.Deployer()), install.DeployerCode(), 0)
	return evm
}

func TestDeployment(t *testing.T) {
	evm := newEVM(t)
	answer, _, err := runtime.Call(common.Address(install.Deployer()), install.Deployment(), evm)
	at := install.Address()
	if err != nil || !bytes.Equal(answer, at[:]) {
		t.Fatalf("the deployer made %x, %v; want %s", answer, err, at)
	}
	if got := evm.State.GetCode(common.Address(at)); !bytes.Equal(got, disburser.Code()) {
		t.Errorf("its code is %x", got)
	}
	if page, err := os.ReadFile("../../../docs/batches.md"); err != nil || !strings.Contains(string(page), at.String()) {
		t.Errorf("docs/batches.md does not have the address %s, %v", at, err)
	}
	// The transaction that made the deployer, the same on every chain.
	var tx types.Transaction
	must.OK(t, tx.UnmarshalBinary(hexutil.MustDecode("0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe"+
		hexutil.Encode(install.DeployerCode())[2:]+
		"1ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222")))
	from, err := types.HomesteadSigner{}.Sender(&tx)
	if made := crypto.CreateAddress(from, 0); err != nil || made != common.Address(install.Deployer()) {
		t.Errorf("that transaction makes %s, %v", made, err)
	}
}

//go:embed testdata/TrialToken.json
var trialToken []byte // made from testdata/TrialToken.sol by tools/contract

// A trial is a payer, the contract and a token on a real EVM.
type trial struct {
	evm   *runtime.Config
	abi   abi.ABI
	coin  common.Address
	payer common.Address
}

func newTrial(t *testing.T, balance, allowance token.Amount) trial {
	var compiled struct{ DeployedBytecode hexutil.Bytes }
	must.OK(t, json.Unmarshal(trialToken, &compiled))
	tr := trial{newEVM(t), readABI(t, trialToken), common.Address{0xc0}, common.Address{0xaa}}
	tr.evm.State.SetCode(tr.coin, compiled.DeployedBytecode, 0)
	tr.evm.State.SetCode(common.Address(install.Address()), disburser.Code(), 0)
	tr.evm.Origin = tr.payer
	tr.ask(t, "mint", tr.payer, bigOf(balance))
	must.Get(tr.call(tr.coin, install.Approval(install.Address(), allowance)))(t)
	return tr
}

func bigOf(a token.Amount) *big.Int {
	b := a.Bytes32()
	return new(big.Int).SetBytes(b[:])
}

// call calls a contract as the origin; a call that fails leaves nothing behind.
func (tr trial) call(to common.Address, data []byte) ([]byte, error) {
	answer, _, err := runtime.Call(to, data, tr.evm)
	return answer, err
}

// ask calls a method of the token and returns the number that it answers.
func (tr trial) ask(t testing.TB, method string, args ...any) *big.Int {
	data := must.Get(tr.abi.Pack(method, args...))(t)
	return new(big.Int).SetBytes(must.Get(tr.call(tr.coin, data))(t))
}

// The token's behaviour towards a recipient, by the first byte of its address. Values up to short are refusals.
const (
	refuses, reverts, burns, returnsFalse, returnsTwo, short = 1, 2, 3, 4, 5, 6
	reenters, takesFee, returnsNothing, returnsMore          = 7, 8, 9, 10
)

// TestBatch holds the contract against a model of it: entries are paid in their order,
// exactly, and all of them; or none, and the revert says which of them was refused.
func TestBatch(t *testing.T) {
	contract := common.Address(install.Address())
	rapid.Check(t, func(rt *rapid.T) {
		balance, allowance := token.Units(rapid.Uint64Range(0, 5_000).Draw(rt, "balance")),
			token.Units(rapid.Uint64Range(0, 5_000).Draw(rt, "allowance"))
		tr := newTrial(t, balance, allowance)
		kinds := []byte{0, reenters, takesFee, returnsNothing, returnsMore}
		if rapid.Bool().Draw(rt, "with refusals") {
			kinds = append(kinds, refuses, reverts, burns, returnsFalse, returnsTwo, short)
		}
		paid, fees, refused := token.Amount{}, map[token.Address]uint64{}, -1
		var want []disburser.Entry
		for i := range rapid.IntRange(1, 100).Draw(rt, "size") {
			to := token.Address{rapid.SampledFrom(kinds).Draw(rt, "kind"), 19: byte(rapid.IntRange(0, 9).Draw(rt, "to"))}
			e := disburser.Entry{To: to, Amount: token.Units(rapid.Uint64Range(0, 100).Draw(rt, "amount"))}
			want = append(want, e)
			sum := must.Get(paid.Add(e.Amount))(rt)
			if bad := to[0] >= refuses && to[0] <= short; refused < 0 && (bad || balance.Less(sum) || allowance.Less(sum)) {
				refused = i
			}
			paid = sum
			if to[0] == takesFee && !e.Amount.IsZero() {
				fees[to]++
			}
		}
		answer, err := tr.call(contract, disburser.Calldata(token.Address(tr.coin), want, []byte("an id")))
		if index, said := disburser.Index(answer); said != (refused >= 0) || said && index != refused || (err != nil) != said {
			rt.Fatalf("it says entry %d, %v, %v; want %d", index, said, err, refused)
		}
		due := map[token.Address]token.Amount{}
		for _, e := range want {
			due[e.To] = must.Get(due[e.To].Add(e.Amount))(rt)
		}
		if refused >= 0 {
			paid, due, fees = token.Amount{}, map[token.Address]token.Amount{}, nil
		}
		for _, e := range want {
			if got := tr.ask(t, "balanceOf", common.Address(e.To)); got.Cmp(bigOf(due[e.To].Sub(token.Units(fees[e.To])))) != 0 {
				rt.Fatalf("%s has %d of %s", e.To, got, due[e.To])
			}
		}
		if left := tr.ask(t, "balanceOf", tr.payer); left.Cmp(bigOf(balance.Sub(paid))) != 0 || tr.ask(t, "allowance",
			tr.payer, contract).Cmp(bigOf(allowance.Sub(paid))) != 0 || tr.ask(t, "balanceOf", contract).Sign() != 0 {
			rt.Fatalf("the payer has %d of %s after %s", left, balance, paid)
		}
		var order []disburser.Entry
		for _, log := range tr.evm.State.Logs() {
			amount := must.Get(token.AmountFromBytes(log.Data))(rt)
			if common.BytesToAddress(log.Topics[1][:]) == tr.payer { // a reentrant call moves nothing
				order = append(order, disburser.Entry{To: token.Address(log.Topics[2][12:]), Amount: amount})
			}
		}
		for i, e := range want {
			if e.To[0] == takesFee {
				want[i].Amount = e.Amount.Sub(token.Units(1))
			}
		}
		if refused < 0 && !cmp.Equal(order, want, cmp.Comparer(func(a, b token.Amount) bool { return a == b })) {
			rt.Fatalf("paid %v, want %v", order, want)
		}
	})
}

// TestStrangersAndBadCalls: no account spends another's allowance, and a call that cannot pay says so.
func TestStrangersAndBadCalls(t *testing.T) {
	contract, some := common.Address(install.Address()), []disburser.Entry{{To: token.Address{19: 7}, Amount: token.Units(5)}}
	tr := newTrial(t, token.Units(100), token.Units(100))
	good := disburser.Calldata(token.Address(tr.coin), some, nil)
	longer := bytes.Clone(good)
	longer[4+95]++
	far := bytes.Clone(good)
	far[4+32]++
	for why, data := range map[string][]byte{
		"no token there":                  disburser.Calldata(token.Address{0xee}, some, nil),
		"no method":                       nil,
		"another method":                  install.Approval(install.Address(), token.Units(1)),
		"a part of the last entry":        good[:len(good)-1],
		"fewer entries than it says":      longer,
		"entries beyond what there is":    far,
		"bits above the token's 20 bytes": append(append(bytes.Clone(good[:4]), 1), good[5:]...),
	} {
		answer, err := tr.call(contract, data)
		if _, index := disburser.Index(answer); err == nil || index {
			t.Errorf("%s: %x, %v", why, answer, err)
		}
	}
	tr.evm.Value = big.NewInt(1)
	tr.evm.State.AddBalance(tr.payer, uint256.NewInt(9), tracing.BalanceChangeUnspecified)
	if _, err := tr.call(contract, good); err == nil {
		t.Error("it takes ether, which nobody would get back")
	}
	tr.evm.Value, tr.evm.Origin = new(big.Int), common.Address{0xbb}
	rapid.Check(t, func(rt *rapid.T) {
		data := bytes.Clone(good)
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			data[rapid.IntRange(4, len(data)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		_, _ = tr.call(contract, data) // of nothing it may succeed
		if left := tr.ask(t, "balanceOf", tr.payer); left.Uint64() != 100 {
			rt.Fatalf("a stranger left %d of 100", left)
		}
	})
}
