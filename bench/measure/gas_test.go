package measure_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// BenchmarkGas reads a payment's gas from receipts, alone and in batches, to recipients that hold
// the token and to others. The token is the test token behind a proxy like USDC's, and every
// payment has its id in the call data.
func BenchmarkGas(b *testing.B) {
	c := must.Get(devnet.Start(b.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 1, Seed: "gas", Now: time.Now}))(b)
	b.Cleanup(func() { _ = c.Close() })
	node := must.Get(ethclient.DialContext(b.Context(), c.URL()))(b)
	defer node.Close()
	signer, wallet := types.LatestSignerForChainID(new(big.Int).SetUint64(c.ID())), c.Wallets()[0]
	send := func(key [32]byte, to *common.Address, data []byte) *types.Receipt {
		b.Helper()
		private := must.Get(crypto.ToECDSA(key[:]))(b)
		nonce := must.Get(node.NonceAt(b.Context(), crypto.PubkeyToAddress(private.PublicKey), nil))(b)
		tx := must.Get(types.SignNewTx(private, signer, &types.DynamicFeeTx{
			ChainID: signer.ChainID(), Nonce: nonce, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e12), Gas: 15_000_000, To: to, Data: data,
		}))(b)
		must.OK(b, c.MineExactly(must.Get(tx.MarshalBinary())(b)))
		receipt := must.Get(node.TransactionReceipt(b.Context(), tx.Hash()))(b)
		if receipt.Status != types.ReceiptStatusSuccessful {
			b.Fatalf("%x reverted", data)
		}
		return receipt
	}
	var proxy, behind struct {
		ABI      abi.ABI
		Bytecode hexutil.Bytes
	}
	for name, into := range map[string]any{"TestProxy.json": &proxy, "TestToken.json": &behind} {
		must.OK(b, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(root, "internal", "sandbox", "devnet", "contracts", name)))(b), into))
	}
	owner := [32]byte(crypto.Keccak256([]byte("gas/owner"))) // as package devnet derives it
	args := must.Get(proxy.ABI.Pack("", common.Address(c.Token().Contract)))(b)
	coin := send(owner, nil, append(proxy.Bytecode, args...)).ContractAddress
	send(owner, &coin, must.Get(behind.ABI.Pack("mint", common.Address(wallet.Address), big.NewInt(1e15)))(b))
	contract, id := common.Address(disburser.Address()), payment.KeyID("mer_1", "test", "a").Memo()
	send(wallet.Key, &coin, disburser.Approval(disburser.Address(), token.MaxAmount()))
	for _, size := range []int{1, 10, 100} {
		var entries []disburser.Entry
		for i := range size {
			to := token.Address(crypto.Keccak256(fmt.Append(nil, size, i))[:20])
			entries = append(entries, disburser.Entry{To: to, Amount: token.Units(1_000_000 + 49_990_007*uint64(i%100))}) // 1 to 5,000 whole tokens
		}
		to, data := &contract, disburser.Calldata(token.Address(coin), entries, id)
		if size == 1 { // as Remit pays one
			to, data = &coin, append(chain.TransferData(entries[0].To, entries[0].Amount), id...)
		}
		for _, recipients := range []string{"new", "holders"} { // the first payment makes the holders
			used := send(wallet.Key, to, data).GasUsed
			emit(b, fmt.Sprintf("payments=%d/recipients=%s", size, recipients), metrics{
				"gas/payment": float64(used) / float64(size), "bytes/payment": float64(len(data)) / float64(size),
			})
		}
	}
}
