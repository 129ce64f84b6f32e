package chains

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/chains.md")

// A cell is a fact with its source: an address, or repository#number. A cell
// without a source says that it is not verified.
type cell struct{ text, source string }

const (
	chainlist     = "https://github.com/wevm/viem/tree/main/src/chains/definitions"
	circle        = "https://developers.circle.com/circle-mint/blockchain-confirmations"
	wormhole      = "https://wormhole.com/docs/build/reference/consistency-levels"
	usdcMain      = "https://github.com/tristeroresearch/chainconfig/blob/main/usdc.mjs"
	usdcTest      = "https://developer.interlace.money/docs/usdc-on-testing-networks"
	opFinality    = "https://docs.optimism.io/stack/transactions/transaction-finality"
	opBatch       = "ethereum-optimism/docs#340"
	gethPool      = "lambdaclass/ethrex#6603"
	rethPool      = "lambdaclass/ethrex#6615"
	celoChain     = "https://docs.celo.org/specs/deployments"
	amsterdam     = "https://github.com/ethereum/EIPs/blob/master/EIPS/eip-8037.md"
	opFees        = "https://github.com/ethereum-optimism/specs/blob/main/specs/protocol/fjord/predeploys.md"
	arcFees       = "https://docs.arc.io/arc/references/gas-and-fees"
	arcModel      = "https://docs.arc.io/arc/concepts/stablecoin-native-model"
	arcContracts  = "https://docs.arc.network/arc/references/contract-addresses"
	tempoEVM      = "https://docs.tempo.xyz/quickstart/evm-compatibility"
	tempoFees     = "https://docs.tempo.xyz/docs/protocol/fees/spec-fee"
	tempoReth     = "https://docs.tempo.xyz/learn/tempo/performance"
	stableGas     = "https://docs.stable.xyz/en/architecture/usdt-specific-features/usdt-as-gas-token"
	stableCore    = "https://docs.stable.xyz/en/introduction/core-concepts"
	plasmaNode    = "https://www.ankr.com/docs/rpc-service/chains/chains-api/plasma/"
	lineaFinality = "https://docs.linea.build/network/overview/transaction-finality"
)

// callGas is where clients give a call the gas that its caller names, and no more: geth and its
// forks, and reth.
func callGas(repository, commit string) cell {
	file := "internal/ethapi/transaction_args.go"
	if strings.HasSuffix(repository, "/reth") {
		file = "crates/rpc/rpc-eth-api/src/helpers/call.rs"
	}
	return cell{"one call", "https://github.com/" + repository + "/blob/" + commit + "/" + file}
}

var estimate = cell{"estimates", ""}

var unverified = cell{"not verified", ""}

// usdcs are the sources of USDC's addresses that are in neither usdcMain nor usdcTest.
var usdcs = map[uint64]cell{
	56: {"none of Circle's; Binance-Peg USDC has 18 decimals",
		"https://github.com/trustwallet/assets/blob/master/blockchains/smartchain/assets/0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d/info.json"},
	97:       unverified,
	5042:     {"", arcContracts},
	5042002:  {"", arcContracts},
	4217:     unverified,
	42431:    unverified,
	988:      {"none of Circle's; USDT0 is `0x779Ded0c9e1022225f8E0630b35a9b54bE713736`", stableGas},
	2201:     {"none of Circle's; USDT0 is `0x78Cf24370174180738C5B8E352B6D14c83a6c9A9`", stableGas},
	9745:     {"none of Circle's; USDT0 is `0xB8CE59FC3717ada4C02eaDF9682A9e934F625ebb`", "https://docs.semanticpay.io/supported-chains"},
	9746:     unverified,
	300:      unverified,
	11142220: {"", "celo-org/docs#2273"},
	59141:    {"", "https://github.com/hyperlane-xyz/hyperlane-monorepo/blob/main/typescript/infra/config/environments/testnet4/warp/cctp.ts"},
}

// families are facts for the operator of a stack on a chain, by the chain's main network. The test
// networks were not looked up apart from it.
var families = map[uint64]struct{ final, block, pool, gas, fee, batch, call cell }{
	1: {
		cell{"`finalized`: two to three epochs of 6.4 min. `safe`: one epoch, or 12 to 24 s at providers that use the fast confirmation rule",
			"https://docs.chainstack.com/docs/ethereum-fast-confirmation"},
		cell{"12 s", "https://docs.chainstack.com/docs/ethereum-fast-confirmation"},
		cell{"geth takes hundreds of consecutive nonces of a sender (16 are guaranteed when the pool is full) and 64 behind a gap", gethPool},
		cell{"since the fork Amsterdam, a transfer to a new holder needs about 98,000 more than one to a holder; before it 17,100. " +
			"Remit estimates both", amsterdam},
		cell{"200 gwei is Remit's choice", ""},
		unverified,
		callGas("ethereum/go-ethereum", "v1.17.10"),
	},
	8453: {
		cell{"`safe`: minutes. `finalized`: about 18 min", wormhole},
		cell{"2 s", "https://docs.base.org/base-chain/flashblocks/overview"},
		cell{"Base's nodes are reth, which takes 16 of a sender", rethPool},
		cell{"an L1 fee on top of gas, which no estimate of gas has: Remit asks the chain's GasPriceOracle", opFees},
		cell{"1 gwei is 200 times the least base fee of 0.005", "https://docs.base.org/base-chain/network-information/network-fees"},
		cell{"public endpoint: 10. From an audit of Remit, not verified again", ""},
		callGas("paradigmxyz/reth", "v1.2.0"), // which Base's image builds: base-org/node, reth/Dockerfile at f289b1b
	},
	10: {
		cell{"`safe`: 5 to 10 min. `finalized`: 13 to 30 min", opFinality},
		cell{"2 s", "https://docs.celo.org/cel2/whats-changed/op-l2"},
		unverified,
		cell{"an L1 fee on top of gas, as on Base", opFees},
		cell{"1 gwei as on Base; not verified", ""},
		cell{"public endpoint: 10, and 300 requests a minute", opBatch},
		callGas("ethereum-optimism/op-geth", "v1.101315.3"),
	},
	42161: {
		cell{"`finalized`: about 18 min; `safe` and `finalized` are those of the batch on Ethereum", wormhole},
		cell{"250 ms", "https://docs.arbitrum.io/how-arbitrum-works/timeboost/troubleshoot-timeboost"},
		cell{"none: the sequencer holds a transaction behind a gap for about a second, then answers \"nonce too high\"",
			"OpenZeppelin/openzeppelin-relayer#862"},
		cell{"L1 data is charged in gas, so the gas of the same call changes with Ethereum's fees; tips are ignored",
			"https://docs.arbitrum.io/how-arbitrum-works/gas-fees"},
		cell{"1 gwei is 100 times the least price of 0.01", "https://docs.arbitrum.io/how-arbitrum-works/gas-fees"},
		unverified,
		estimate,
	},
	137: {
		cell{"`finalized`: 2 to 5 s", "https://docs.polygon.technology/pos/concepts/finality/finality"},
		cell{"about 2 s: 50 blocks in 2 min", circle},
		cell{"not verified; its client is a fork of geth", ""},
		cell{"paid in POL", chainlist},
		cell{"1,000 gwei is 40 times the floor of 25 of PIP-59",
			"https://forum.polygon.technology/t/pip-59-moving-the-floor-gas-price-of-25-gwei-from-priority-fee-to-base-fee/20609"},
		unverified,
		callGas("0xPolygon/bor", "6654d1cc040ba2d9be55104cd272c04a013c9e65"),
	},
	56: {
		cell{"`finalized`: two blocks; when votes fail, more than half of the validators",
			"https://docs.bnbchain.org/bnb-smart-chain/developers/json_rpc/bsc-api-list/"},
		cell{"450 ms", "https://hydex.org/bnb-chains-fermi-upgrade-brings-0-45-second-blocks-and-faster-finality"},
		unverified,
		cell{"the base fee is 0: all is tip, and validators set the minimum", "hyperlane-xyz/hyperlane-monorepo#3462"},
		cell{"5 gwei is 100 times the least price of 0.05", "chainflip-io/chainflip-eth-contracts#535"},
		cell{"not verified; public endpoints take 10,000 requests in 5 min and no eth_getLogs",
			"https://docs.bnbchain.org/bnb-smart-chain/developers/json_rpc/json-rpc-endpoint"},
		callGas("bnb-chain/bsc", "1f52ae0fec473cdd8078c3930774aa779faae5a2"),
	},
	43114: {
		cell{"`finalized`: about 2 s", wormhole},
		cell{"about 2 s", circle},
		unverified,
		cell{"its eth_feeHistory lacks the next block's base fee: Remit adds an eighth. From an audit of Remit, not verified again", ""},
		cell{"100 gwei is 100 times the least base fee of 1", "https://build.avax.network/docs/acps/125-basefee-reduction"},
		cell{"public endpoint: 40", "https://build.avax.network/docs/api-reference/c-chain/api"},
		callGas("ava-labs/coreth", "001ff3aacf48d8d6827539ebc0fc9e20a6b2a935"),
	},
	42220: {
		cell{"`finalized`: 13 to 19 min", circle},
		cell{"1 s", celoChain},
		unverified,
		cell{"paid in CELO; no L1 fee: the base fee's floor covers it", "https://docs.celo.org/specs/transaction-fees"},
		cell{"500 gwei is 20 times the least base fee of 25", celoChain},
		unverified,
		callGas("celo-org/op-geth", "0670e4eb30ac91c1126df563234a417608380d47"),
	},
	59144: {
		cell{"`finalized`: 6 to 32 hours", circle},
		cell{"about 1 s", lineaFinality},
		unverified,
		cell{"the base fee is 7 wei: all is tip, which covers the L1 data and depends on the call",
			"https://docs.linea.build/network/how-to/gas-fees"},
		cell{"10 gwei is over 100 times the tip of 0.06 in the documentation's example",
			"https://docs.linea.build/reference/apis/linea-api/eth-maxpriorityfeepergas"},
		unverified,
		estimate,
	},
	324: {
		cell{"5 to 7 hours; that nodes answer `finalized` is not verified", circle},
		cell{"200 ms", "https://github.com/wevm/viem/blob/main/src/chains/definitions/zksync.ts"},
		unverified,
		cell{"each byte of data that is published on Ethereum is charged in gas",
			"https://docs.metamask.io/services/reference/zksync/json-rpc-methods/zks_estimatefee"},
		cell{"5 gwei is 20 times the 0.25 of 2023", "https://unifra.readme.io/reference/zks_getblockdetails"},
		unverified,
		estimate,
	},
	5042: {
		cell{"under a second; that nodes answer `finalized` is not verified", "https://docs.arc.network/arc/concepts/evm-compatibility"},
		cell{"half a second", "https://dev.to/sulimanmukhtar/arc-chain-in-numbers-one-dollar-two-decimals-and-97000-tokens-in-a-day-4b5o"},
		cell{"its client is built on reth, which takes 16 of a sender", tempoReth},
		cell{"paid in USDC: `balanceOf` in 6 decimals and `eth_getBalance` in 18 are one balance", arcModel},
		cell{"1,000 gwei is 50 times the least base fee of 20 of its test network, and 0.06 USDC a transfer", arcFees},
		unverified,
		estimate,
	},
	4217: {
		cell{"under a second; that nodes answer `finalized` is not verified", "https://mintlify.com/tempoxyz/tempo/concepts/consensus"},
		cell{"half a second", "https://mintlify.com/tempoxyz/tempo/concepts/consensus"},
		cell{"its client is built on reth, which takes 16 of a sender", tempoReth},
		cell{"paid in a stablecoin, in whole units rounded up; there is no other coin, and `eth_getBalance` gives a placeholder", tempoEVM},
		cell{"1,000 gwei is 50 times the fixed base fee of 20", tempoFees},
		unverified,
		estimate,
	},
	988: {
		cell{"a block is final; that nodes answer `finalized` is not verified", stableCore},
		cell{"0.7 s", "https://docs.chainstack.com/docs/stable-tooling"},
		unverified,
		cell{"paid in USDT0: `balanceOf` in 6 decimals and `eth_getBalance` in 18 are one balance; tips are ignored", stableCore},
		cell{"100 gwei is 100 times the price of 1 in the documentation's example", "https://docs.stable.xyz/en/tutorial/send-usdt0"},
		unverified,
		estimate,
	},
	9745: {
		cell{"about a second, by its design; that nodes answer `finalized` is not verified", "https://docs.semanticpay.io/supported-chains"},
		cell{"about a second", plasmaNode},
		cell{"its client is built on reth, which takes 16 of a sender", plasmaNode},
		cell{"paid in XPL: Remit uses no paymaster", "https://docs.plasma.to/docs/plasma-chain/network-information/network-fees"},
		cell{"100 gwei is Remit's choice", ""},
		unverified,
		estimate,
	},
}

// String returns the cell as Markdown.
func (c cell) String() string {
	repository, number, issue := strings.Cut(c.source, "#")
	switch {
	case c.source == "":
		return c.text
	case issue:
		return strings.TrimSpace(fmt.Sprintf("%s ([%s](https://github.com/%s/issues/%s))", c.text, c.source, repository, number))
	}
	return strings.TrimSpace(fmt.Sprintf("%s ([source](%s))", c.text, c.source))
}

// tables writes the generated part of docs/chains.md.
func tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| chain | `ChainId` ([source](%s)) | `ConfirmationRule` | `BlockTime` | `MaxFeeCapGwei` | `NonceWindow` | "+
		"USDC |\n| --- | ---: | --- | ---: | ---: | ---: | --- |\n", chainlist)
	for i, p := range profiles {
		usdc := usdcs[p.ID]
		if usdc == (cell{}) {
			usdc.source = []string{usdcMain, usdcTest}[i%2]
		}
		if p.USDC != "" {
			usdc.text = "`" + p.USDC + "`"
		}
		c := p.Complete(stack.Config{})
		fmt.Fprintf(&b, "| %s | %d | `%s` | %s | %d | %d | %s |\n", p.Name, p.ID, c.ConfirmationRule, c.BlockTime, p.FeeLimit, c.Own.Window, usdc)
	}
	b.WriteString("\n| chain | until it is final | a block every | pool limit per sender | gas | fee cap | calls in one " +
		"request | a transfer is simulated by |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, p := range profiles {
		if f, ok := families[p.ID]; ok {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", p.Name, f.final, f.block, f.pool, f.gas, f.fee, f.batch, f.call)
		}
	}
	return b.String()
}

// TestPage keeps the tables of docs/chains.md equal to the profiles. Redraw them
// with go test ./internal/evm/chains -update.
func TestPage(t *testing.T) {
	const file, begin, end = "../../../docs/chains.md", "<!-- chains: go test ./internal/evm/chains -update -->\n", "<!-- end of chains -->"
	text := must.Get(os.ReadFile(file))(t)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for the tables", file)
	}
	want := before + begin + "\n" + tables() + "\n" + end + after
	if *update {
		must.OK(t, os.WriteFile(file, []byte(want), 0o600))
	} else if want != string(text) {
		t.Errorf("%s is out of date; run go test ./internal/evm/chains -update", file)
	}
}

// TestEveryCellHasASource, or says that it has none.
func TestEveryCellHasASource(t *testing.T) {
	source := regexp.MustCompile(`^(https://[^\s|]+|[\w.-]+/[\w.-]+#\d+)$`)
	check := func(name string, c cell) {
		if c.source == "" && !strings.Contains(c.text, "not verified") && !strings.Contains(c.text, "Remit") || c.source != "" &&
			!source.MatchString(c.source) {
			t.Errorf("%s: %q has the source %q", name, c.text, c.source)
		}
	}
	var ids []uint64
	for i, p := range profiles {
		if slices.Contains(ids, p.ID) || p.Name == "" || p.BlockTime <= 0 || p.FeeLimit == 0 || p.Window == 0 || p.ConfirmationRule.Tag == "" {
			t.Errorf("a profile is incomplete or there twice: %+v", p)
		}
		ids = append(ids, p.ID)
		f, ok := families[p.ID]
		if main := i%2 == 0; ok != main {
			t.Errorf("%s: main network %t, but described %t", p.Name, main, ok)
		} else if main {
			for _, c := range []cell{f.final, f.block, f.pool, f.gas, f.fee, f.batch} {
				check(p.Name, c)
			}
		}
		if call := families[profiles[i-i%2].ID].call; p.ByCall != (call != estimate) {
			t.Errorf("%s: transfers are executed by a call %t, and the page says %q", p.Name, p.ByCall, call)
		} else if p.ByCall {
			check(p.Name, call)
		}
		if _, err := token.ParseAddress(p.USDC); err != nil && p.USDC != "" || p.USDC == "" && usdcs[p.ID].text == "" {
			t.Errorf("%s: USDC is %q: %v", p.Name, p.USDC, err)
		}
	}
	for id, c := range usdcs {
		if check(fmt.Sprint(id), c); !slices.Contains(ids, id) {
			t.Errorf("USDC of an unknown chain %d", id)
		}
	}
}

// TestComplete: parameters override, a known chain gives the rest, and an unknown chain gets the
// values that every stack had before there were profiles.
func TestComplete(t *testing.T) {
	depth := chain.ConfirmationRule{Depth: 3}
	own := func(window, gwei uint64) stack.Own { return stack.Own{Window: window, FeeLimit: Gwei(gwei)} }
	for why, c := range map[string]struct {
		id           uint64
		known        bool
		chosen, want stack.Config
	}{
		"the chain's own": {8453, true, stack.Config{},
			stack.Config{ByCall: true, ConfirmationRule: finalized, BlockTime: 2 * time.Second, Own: own(16, 1)}},
		"parameters override": {8453, true, stack.Config{ConfirmationRule: depth, BlockTime: time.Minute},
			stack.Config{ByCall: true, ConfirmationRule: depth, BlockTime: time.Minute, Own: own(16, 1)}},
		"one alone": {1, true, stack.Config{BlockTime: time.Minute},
			stack.Config{ByCall: true, ConfirmationRule: finalized, BlockTime: time.Minute, Own: own(64, 200)}},
		"no faster than a second": {42161, true, stack.Config{},
			stack.Config{ConfirmationRule: finalized, BlockTime: time.Second, Own: own(16, 1)}},
		"a chain that is not known": {7, false, stack.Config{},
			stack.Config{ConfirmationRule: safe, BlockTime: 2 * time.Second, Own: own(64, 200)}},
		"anvil": {31337, false, stack.Config{},
			stack.Config{ByCall: true, ConfirmationRule: safe, BlockTime: 2 * time.Second, Own: own(64, 200)}},
	} {
		p, known := Of(c.id)
		if got := p.Complete(c.chosen); got != c.want || known != c.known {
			t.Errorf("%s: got %+v, %t; want %+v, %t", why, got, known, c.want, c.known)
		}
	}
}
