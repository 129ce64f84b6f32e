// Package chains knows the chains that Remit is used on: the values that a stack works by when its operator chooses
// none. docs/chains.md shows them with the source of each; a chain that is not among them works too.
package chains

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Profile holds one chain's values.
type Profile struct {
	ID               uint64 // EIP-155
	Name             string // "" for a chain that has no profile
	ConfirmationRule chain.ConfirmationRule
	BlockTime        time.Duration // the usual time between two blocks
	FeeLimit         uint64        // gwei per gas; nodes suggest the tip (package ethrpc)
	// Payments in flight per wallet: no more than the chain's nodes hold of one sender (docs/decisions/0015-window.md).
	Window uint64
	pricing
	USDC string // the contract of Circle's USDC; "" where Circle issues none, or its address is not verified
}

type pricing struct {
	L1Fee  bool // the chain charges an L1 fee and an operator fee beside gas, which its GasPriceOracle gives
	ByCall bool // nodes execute a call within its gas like a transaction, and pad no estimate: it stands for one
	Gas    chain.GasRule
}

// leastPause is the least time between two rounds of settling. Each asks every node once per wallet, so rounds as
// fast as the fastest chains' blocks would use up a node's rate, for payments that wait minutes for finality.
const leastPause = second

const second = time.Second

var safe, finalized = chain.ConfirmationRule{Tag: "safe"}, chain.ConfirmationRule{Tag: "finalized"}

const (
	arcUSDC   = "0x3600000000000000000000000000000000000000"
	usdt0     = "0x779Ded0c9e1022225f8E0630b35a9b54bE713736"
	testUSDT0 = "0x78Cf24370174180738C5B8E352B6D14c83a6c9A9"
)

// Gas is paid in a coin of the chain; on Tempo in every stablecoin of its own kind, whose fees are logged as
// transfers to the fee manager; on Arc and Stable in the one token that is the coin too, which moves fractions of its
// smallest unit to a reserve and back on Stable.
var (
	estimated = pricing{}
	called    = pricing{ByCall: true}
	rollup    = pricing{L1Fee: true, ByCall: true} // of the OP Stack
	tempo     = pricing{Gas: chain.GasRule{InToken: true, NoEther: true, Account: token.Address{0: 0xfe, 1: 0xec}}}
	arc       = pricing{Gas: of(arcUSDC)}
)

// of returns the rule of a chain whose coin is the token of a contract too.
func of(contract string) chain.GasRule {
	coin, err := token.ParseAddress(contract)
	if err != nil {
		panic(err) // TestPage
	}
	return chain.GasRule{InToken: true, Token: coin}
}

func stable(contract string) pricing {
	rule := of(contract)
	rule.Account = of("0x6D11e1A6BdCC974ebE1cA73CC2c1Ea3fDE624370").Token
	return pricing{Gas: rule}
}

// profiles are the known chains, each main network before its test network. docs/chains.md has each value's source.
var profiles = []Profile{
	{1, "Ethereum", finalized, 12 * second, 200, 64, called, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"},
	{11155111, "Ethereum Sepolia", safe, 12 * second, 200, 64, called, "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"},
	{8453, "Base", finalized, 2 * second, 1, 16, rollup, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"},
	{84532, "Base Sepolia", safe, 2 * second, 1, 16, rollup, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"},
	{10, "OP Mainnet", finalized, 2 * second, 1, 64, rollup, "0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"},
	{11155420, "OP Sepolia", safe, 2 * second, 1, 64, rollup, "0x5fd84259d66Cd46123540766Be93DFE6D43130D7"},
	{42161, "Arbitrum One", finalized, second / 4, 1, 16, estimated, "0xaf88d065e77c8cC2239327C5EDb3A432268e5831"},
	{421614, "Arbitrum Sepolia", safe, second / 4, 1, 16, estimated, "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d"},
	{137, "Polygon PoS", finalized, 2 * second, 1000, 64, called, "0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"},
	{80002, "Polygon Amoy", finalized, 2 * second, 1000, 64, called, "0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582"},
	{56, "BNB Smart Chain", finalized, 450 * time.Millisecond, 5, 64, called, ""},
	{97, "BNB Smart Chain Testnet", finalized, 450 * time.Millisecond, 5, 64, called, ""},
	{43114, "Avalanche C-Chain", finalized, 2 * second, 100, 64, called, "0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"},
	{43113, "Avalanche Fuji", finalized, 2 * second, 100, 64, called, "0x5425890298aed601595a70AB815c96711a31Bc65"},
	{42220, "Celo", finalized, second, 500, 64, called, "0xcebA9300f2b948710d2653dD7B07f33A8B32118C"},
	{11142220, "Celo Sepolia", finalized, second, 500, 64, called, "0x01C5C0122039549AD1493B8220cABEdD739BC44E"},
	{59144, "Linea", finalized, second, 10, 64, estimated, "0x176211869cA2b568f2A7D4EE941E073a821EE1ff"},
	{59141, "Linea Sepolia", finalized, second, 10, 64, estimated, "0xFEce4462D57bD51A6A552365A011b95f0E16d9B7"},
	{324, "ZKsync Era", finalized, second / 5, 5, 64, estimated, "0x1d17CBcF0D6D143135aE902365D2E5e2A16538D4"},
	{300, "ZKsync Sepolia", finalized, second / 5, 5, 64, estimated, ""},
	{5042, "Arc", finalized, second / 2, 1000, 16, arc, arcUSDC},
	{5042002, "Arc Testnet", finalized, second / 2, 1000, 16, arc, arcUSDC},
	{4217, "Tempo", finalized, second / 2, 1000, 16, tempo, ""},
	{42431, "Tempo Moderato", finalized, second / 2, 1000, 16, tempo, ""},
	{988, "Stable", finalized, 700 * time.Millisecond, 100, 64, stable(usdt0), ""},
	{2201, "Stable Testnet", finalized, 700 * time.Millisecond, 100, 64, stable(testUSDT0), ""},
	{9745, "Plasma", finalized, second, 100, 16, estimated, ""},
	{9746, "Plasma Testnet", finalized, second, 100, 16, estimated, ""},
}

// development reports whether a chain is one of the nodes that `make nodes` pays through:
// the embedded one, anvil and Hardhat. That draws nine more digits.
func development(id uint64) bool { return id == 1337 || id == 31337 || id/1_000_000_000 == 31337 }

// Of returns the profile of a chain. It reports false for a chain that has none, and for that returns the values of a
// stack that can rely on nothing: blocks of two seconds, the tag safe, 200 gwei, estimates.
func Of(id uint64) (Profile, bool) {
	for _, p := range profiles {
		if p.ID == id {
			return p, true
		}
	}
	return Profile{ID: id, ConfirmationRule: safe, BlockTime: 2 * time.Second, FeeLimit: 200, Window: 64,
		pricing: pricing{ByCall: development(id)}}, false
}

// Named returns the profile of a chain by its number or name, such as 8453, Base or base.
func Named(text string) (Profile, error) {
	if id, err := strconv.ParseUint(text, 10, 64); err == nil && id > 0 {
		p, _ := Of(id)
		return p, nil
	}
	for _, p := range profiles {
		if p.Network() == strings.ToLower(strings.ReplaceAll(text, " ", "-")) {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("%q is no chain of docs/chains.md; give its EIP-155 number", text)
}

// Network returns the chain's name as merchants read it, "" for a chain that has no profile.
func (p Profile) Network() string { return strings.ToLower(strings.ReplaceAll(p.Name, " ", "-")) }

// Complete returns a stack's decisions, with the profile's confirmation rule and block time where the stack's are
// zero, and with Own, ByCall and how c.Token pays gas.
func (p Profile) Complete(c stack.Config) stack.Config {
	c.ConfirmationRule = cmp.Or(c.ConfirmationRule, p.ConfirmationRule)
	c.BlockTime = cmp.Or(c.BlockTime, max(p.BlockTime, leastPause))
	c.Own = stack.Own{Window: p.Window, FeeLimit: Gwei(p.FeeLimit)}
	c.ByCall = p.ByCall
	c.Gas, c.GasUnit = p.Gas, p.Gas.Unit(c.Token)
	return c
}

// First returns the first version of the settings of a rail on the chain, from texts by name. The chain's own name and
// Circle's USDC, which has six decimals on every chain in this package
// (https://developers.circle.com/stablecoins/usdc-contract-addresses), stand in for empty texts. The symbol and the
// decimals of another token must be there.
func (p Profile) First(texts map[string]string) (first settings.Settings, err error) {
	all := map[string]string{"Network": p.Network(), "TokenAddress": p.USDC}
	if strings.EqualFold(cmp.Or(texts["TokenAddress"], p.USDC), p.USDC) {
		all["TokenSymbol"], all["TokenDecimals"] = "USDC", "6"
	}
	for name, text := range texts {
		all[name] = cmp.Or(text, all[name])
	}
	all["ChainId"] = strconv.FormatUint(p.ID, 10)
	for _, name := range []string{"Network", "TokenAddress", "TokenSymbol", "TokenDecimals"} {
		if all[name] == "" {
			return first, fmt.Errorf("%s is not known for this token on chain %d; set it", name, p.ID)
		}
	}
	first = settings.Default(settings.Rail{})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err == nil {
			first, err = settings.Payments.Set(first, name, all[name])
		}
	}
	return first, err
}

// Gwei returns an amount of wei.
func Gwei(gwei uint64) token.Amount {
	wei, _ := token.Units(gwei).Times(1_000_000_000) // 64 bits of gwei fit into 256 of wei
	return wei
}
