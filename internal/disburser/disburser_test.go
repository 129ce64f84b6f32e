package disburser_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm/runtime"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"remit/internal/disburser"
	"remit/internal/token"
)

//go:embed contracts/Disburser.json
var artifact []byte

func readABI(t testing.TB, artifact []byte) abi.ABI {
	var compiled struct{ ABI abi.ABI }
	if err := json.Unmarshal(artifact, &compiled); err != nil {
		t.Fatal(err)
	}
	return compiled.ABI
}

// entries are up to 100 random ones.
var entries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) disburser.Entry {
	to := rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "to")
	amount, err := token.AmountFromBytes(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "amount"))
	if err != nil {
		t.Fatal(err)
	}
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
	db, err := state.New(types.EmptyRootHash, state.NewDatabaseForTesting())
	if err != nil {
		t.Fatal(err)
	}
	evm := &runtime.Config{State: db, Origin: common.Address{1}, GasLimit: 30_000_000, Value: new(big.Int)}
	db.SetCode(common.Address(disburser.Deployer()), disburser.DeployerCode(), 0)
	return evm
}

func TestDeployment(t *testing.T) {
	evm := newEVM(t)
	answer, _, err := runtime.Call(common.Address(disburser.Deployer()), disburser.Deployment(), evm)
	at := disburser.Address()
	if err != nil || !bytes.Equal(answer, at[:]) {
		t.Fatalf("the deployer made %x, %v; want %s", answer, err, at)
	}
	if got := evm.State.GetCodeHash(common.Address(at)); got != disburser.CodeHash() || !bytes.Equal(evm.State.GetCode(common.Address(at)), disburser.Code()) {
		t.Errorf("its code hash is %s; want %x", got, disburser.CodeHash())
	}
	// The transaction that made the deployer, the same on every chain.
	var tx types.Transaction
	if err := tx.UnmarshalBinary(hexutil.MustDecode("0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe" + hexutil.Encode(disburser.DeployerCode())[2:] + "1ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222")); err != nil {
		t.Fatal(err)
	}
	from, err := types.HomesteadSigner{}.Sender(&tx)
	if made := crypto.CreateAddress(from, 0); err != nil || made != common.Address(disburser.Deployer()) {
		t.Errorf("that transaction makes %s, %v", made, err)
	}
}
