package ethrpc_test

import (
	"slices"
	"strings"
	"testing"

	"remit/internal/chain"
	"remit/internal/ethrpc"
)

// said is one text of one client, as it goes over the wire.
type said struct {
	client string
	source string // a file of the client's repository, or who recorded it
	code   string
	words  string
	class  chain.Class
}

// Sources that several texts share.
const (
	gethPool   = "core/txpool/errors.go and validation.go, v1.17"
	gethLegacy = "core/txpool/legacypool/legacypool.go, v1.17"
	nethOld    = "Nethermind.TxPool/AcceptTxResult.cs, before 1.37"
	nethNew    = "Nethermind.TxPool/TxPoolErrorMessages.cs, 2026"
	besuTypes  = "ethereum/api/…/jsonrpc/internal/response/RpcErrorType.java"
	erigonPool = "txnprovider/txpool/txpoolcfg/txpoolcfg.go"
	rethErrors = "crates/rpc/rpc-eth-types/src/error/mod.rs"
	anvilError = "crates/anvil/src/eth/error.rs"
	chainlink  = "recorded by chainlink, core/chains/evm/client/errors_test.go"
)

var recorded = []said{
	{"geth", gethPool, "-32000", "already known", chain.Known},
	{"geth before 1.9.11", chainlink, "-32000", "known transaction: 0x7f657507aee0511e36d2d1972a6b22e917cc89f92b6c12c4dbd57eaabb236960", chain.Known},
	{"Besu", besuTypes, "-32000", "Known transaction", chain.Known},
	{"Nethermind", nethOld, "-32010", "AlreadyKnown", chain.Known},
	{"Nethermind", nethOld, "-32010", "OwnNonceAlreadyUsed", chain.Known},
	{"Nethermind", nethNew, "-32010", "already known", chain.Known},
	{"Erigon", erigonPool, "-32000", "existing txn with same hash", chain.Known},
	{"Reth", rethErrors, "-32000", "already known", chain.Known},
	{"anvil", anvilError, "-32003", "transaction already imported", chain.Known},
	{"zkSync", chainlink, "3", "known transaction. transaction with hash 0x6013…3053 is already in the system", chain.Known},
	{"Mantle", chainlink, "-32000", "failed to forward tx to sequencer, please try again. Error message: 'already known'", chain.Known},

	{"geth", gethPool, "-32000", "nonce too low: next nonce 8090, tx nonce 8089", chain.NonceTooLow},
	{"Besu", besuTypes, "-32001", "Nonce too low", chain.NonceTooLow},
	{"Nethermind", nethOld, "-32010", "OldNonce, Current nonce: 22, nonce of rejected tx: 17", chain.NonceTooLow},
	{"Erigon", erigonPool, "-32000", "nonce too low", chain.NonceTooLow},
	{"Reth", rethErrors, "-32000", "nonce too low: next nonce 8090, tx nonce 8089", chain.NonceTooLow},
	{"OpenEthereum", chainlink, "-32010", "Transaction nonce is too low. Try incrementing the nonce.", chain.NonceTooLow},
	{"Arbitrum Nitro", chainlink, "-32000", "nonce too low: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 state: 8090", chain.NonceTooLow},
	{"Arbitrum Classic", "OffchainLabs/arbitrum-classic issue 2127", "-32000", "invalid transaction nonce", chain.NonceTooLow},
	{"zkSync", chainlink, "3", "nonce too low. allowed nonce range: 427 - 447, actual: 426", chain.NonceTooLow},

	{"geth, of a delegated account", gethLegacy, "-32000", "gapped-nonce tx from delegated accounts", chain.Gap},
	{"geth", gethPool, "-32000", "nonce too high: tx nonce 9, gapped nonce 7", chain.Gap},
	{"Besu", besuTypes, "-32006", "Nonce too high", chain.Gap},
	{"Besu", besuTypes, "-32000", "Transaction nonce is too distant from current sender nonce", chain.Gap},
	{"Besu", besuTypes, "-32000", "An invalid transaction with a lower nonce exists", chain.Gap},
	{"Nethermind", nethOld, "-32010", "NonceGap, Future nonce. Expected nonce: 10", chain.Gap},
	{"Nethermind", nethNew, "-32010", "nonce too far in future", chain.Gap},
	{"Nethermind", nethNew, "-32010", "delegation nonce gap", chain.Gap},
	{"Arbitrum Nitro", chainlink, "-32000", "nonce too high: address 0x336394A3219e71D9d9bd18201d34E95C1Bb7122C, tx: 8089 state: 8090", chain.Gap},

	{"geth", gethPool, "-32000", "replacement transaction underpriced", chain.Replacement},
	{"geth", gethLegacy, "-32000", "future transaction tries to replace pending", chain.Replacement},
	{"Besu", besuTypes, "-32000", "Replacement transaction underpriced", chain.Replacement},
	{"Nethermind", nethOld, "-32010", "ReplacementNotAllowed", chain.Replacement},
	{"Erigon", erigonPool, "-32000", "could not replace existing tx", chain.Replacement},
	{"Erigon", erigonPool, "-32000", "replacement transaction underpriced", chain.Replacement},
	{"anvil", anvilError, "-32003", "replacement transaction underpriced", chain.Replacement},
	{"Klaytn", chainlink, "-32000", "there is another tx which has the same nonce in the tx pool", chain.Replacement},

	{"geth", gethPool, "-32000", "transaction gas price below minimum: gas tip cap 1, minimum needed 1000000", chain.FeeTooLow},
	{"geth", gethPool, "-32000", "transaction underpriced", chain.FeeTooLow},
	{"Besu", besuTypes, "-32009", "Gas price below configured minimum gas price", chain.FeeTooLow},
	{"Besu", besuTypes, "-32009", "Gas price below current base fee", chain.FeeTooLow},
	{"Nethermind", nethOld, "-32010", "FeeTooLowToCompete", chain.FeeTooLow},
	{
		"Nethermind", chainlink, "-32010",
		"FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 50, BaseFee: 100, MaxPriorityFeePerGas:200, Block number: 5", chain.FeeTooLow,
	},
	{"Erigon", erigonPool, "-32000", "underpriced", chain.FeeTooLow},
	{"Erigon", erigonPool, "-32000", "fee too low", chain.FeeTooLow},
	{"Reth", rethErrors, "-32000", "max fee per gas less than block base fee", chain.FeeTooLow},
	{"Reth", rethErrors, "-32003", "transaction priority fee below minimum required priority fee 1000000", chain.FeeTooLow},
	{"Arbitrum Classic", chainlink, "-32000", "gas price too low", chain.FeeTooLow},

	{"geth", gethPool, "-32000", "insufficient funds for gas * price + value: balance 0, tx cost 42000, overshot 42000", chain.Funds},
	{
		"geth, of the whole pool", gethPool, "-32000",
		"insufficient funds for gas * price + value: balance 9, queued cost 8, tx cost 7, overshot 6", chain.Funds,
	},
	{"geth before 1.9", chainlink, "-32000", "insufficient balance for transfer", chain.Funds},
	{"geth before 1.12", chainlink, "-32000", "transaction would cause overdraft", chain.Funds},
	{"Besu", besuTypes, "-32004", "Upfront cost exceeds account balance", chain.Funds},
	{
		"Nethermind", chainlink, "-32010",
		"InsufficientFunds, Account balance: 4740799397601480913, cumulative cost: 22019342038993800000", chain.Funds,
	},
	{"Erigon", erigonPool, "-32000", "insufficient funds", chain.Funds},
	{"Reth", rethErrors, "-32003", "insufficient funds for gas * price + value: have 0 want 42000", chain.Funds},
	{"anvil", anvilError, "-32003", "Insufficient funds for gas * price + value", chain.Funds},
	{"Arbitrum Classic", chainlink, "-32000", "not enough funds for gas", chain.Funds},

	{"geth", gethLegacy, "-32000", "txpool is full", chain.Full},
	{"geth, of blob transactions", gethPool, "-32000", "account limit exceeded: pooled 16 txs", chain.Full},
	{"geth", gethPool, "-32000", "in-flight transaction limit reached for delegated accounts", chain.Full},
	{"Erigon", erigonPool, "-32000", "queued sub-pool is full", chain.Full},
	{"Reth", rethErrors, "-32003", "txpool is full", chain.Full},
	{"Arbitrum Nitro", chainlink, "-32000", "queue full", chain.Full},
	{"Arbitrum Classic", chainlink, "-32000", "sequencer pending tx pool full, please try again", chain.Full},

	{"geth", gethPool, "-32000", "exceeds block gas limit", chain.Wrong},
	{"geth", gethPool, "-32000", "intrinsic gas too low: gas 20999, minimum needed 21000", chain.Wrong},
	{"geth", gethPool, "-32000", "invalid sender: invalid transaction v, r, s values", chain.Wrong},
	{"geth", gethPool, "-32000", "oversized data: transaction size 131073, limit 131072", chain.Wrong},
	{"geth", "core/types/transaction_signing.go, v1.17", "-32000", "invalid chain id for signer: have 1 want 84532", chain.Wrong},
	{"Besu", besuTypes, "-32005", "Transaction gas limit exceeds block gas limit", chain.Wrong},
	{"Reth", rethErrors, "-32000", "invalid chain ID", chain.Wrong},

	{"anvil, of another type", anvilError, "-32602", "Unknown transaction type not supported", chain.Ambiguous},
	{"geth, by configuration of one node", "internal/ethapi/api.go, v1.17", "-32000", "tx fee (1.10 ether) exceeds the configured cap (1.00 ether)", chain.Ambiguous},
	{"geth, of the blob pool", gethPool, "-32000", "address already reserved", chain.Ambiguous},
	{"Besu", besuTypes, "-32603", "Internal error", chain.Ambiguous},
	{"Besu, starting", besuTypes, "-32002", "Transaction pool not enabled. (Either txpool explicitly disabled, or node not yet in sync).", chain.Ambiguous},
	{"Nethermind", nethNew, "-32010", "node is syncing", chain.Ambiguous},
	{"Infura", "its documentation of errors", "-32005", "daily request count exceeded, request rate limited", chain.Ambiguous},
	{"geth", "rpc/errors.go, v1.17", "-32002", "request timed out", chain.Ambiguous},
	{"a node of nothing but a code", "", "-32000", "", chain.Ambiguous},
}

func TestClassifiesWhatClientsSay(t *testing.T) {
	for _, row := range recorded {
		t.Run(row.client+": "+row.words, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_sendRawTransaction": always(failure(row.code, row.words))})
			got := open(t, s.URL).Send(t.Context(), []byte{2})
			if got.Class != row.class {
				t.Errorf("class %s, want %s", got.Class, row.class)
			}
			if !strings.Contains(got.Detail, row.words) || !strings.Contains(got.Detail, row.code) {
				t.Errorf("detail %q does not say %s %q", got.Detail, row.code, row.words)
			}
		})
	}
}

func TestEveryClassHasARecordedText(t *testing.T) {
	for _, class := range chain.Classes() {
		if class != chain.Accepted && !slices.ContainsFunc(recorded, func(s said) bool { return s.class == class }) {
			t.Errorf("no recorded text of class %s", class)
		}
	}
}

// misclassified returns how many recorded texts a changed table gets wrong.
func misclassified(table []ethrpc.Reply) int {
	wrong := 0
	for _, row := range recorded {
		if ethrpc.ClassOf(row.words, table) != row.class {
			wrong++
		}
	}
	return wrong
}

func TestEveryReplyIsNeeded(t *testing.T) {
	table := ethrpc.Replies()
	if n := misclassified(table); n != 0 {
		t.Fatalf("the table as it is gets %d wrong", n)
	}
	for i, r := range table {
		if misclassified(slices.Delete(slices.Clone(table), i, i+1)) == 0 {
			t.Errorf("without %q nothing is misclassified", r.Words())
		}
		if r.Words() != strings.ToLower(r.Words()) {
			t.Errorf("%q is not in lower case and never matches", r.Words())
		}
	}
}

func TestTheOrderOfRepliesMatters(t *testing.T) {
	table := ethrpc.Replies()
	pairs := 0
	for i, longer := range table {
		for j, shorter := range table {
			if i == j || !strings.Contains(longer.Words(), shorter.Words()) {
				continue
			}
			if j < i {
				t.Errorf("%q is never reached behind %q", longer.Words(), shorter.Words())
			}
			if longer.Class() == shorter.Class() {
				continue
			}
			pairs++
			swapped := slices.Clone(table)
			swapped[i], swapped[j] = shorter, longer
			if misclassified(swapped) == 0 {
				t.Errorf("with %q before %q nothing is misclassified", shorter.Words(), longer.Words())
			}
		}
	}
	if pairs < 2 {
		t.Errorf("%d pairs of replies contain one another; want the two that are known", pairs)
	}
}
