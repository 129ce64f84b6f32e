package ethrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// feeHistory is the answer of eth_feeHistory.
type feeHistory struct {
	BaseFee []quantity   `json:"baseFeePerGas"` // of each block, and of the next one
	Reward  [][]quantity `json:"reward"`        // of each block, each percentile
}

// The OP stack's GasPriceOracle, a contract at the same address on each of its chains
// (ethereum-optimism/specs, protocol/predeploys.md), and the first four bytes of
// keccak256("getL1FeeUpperBound(uint256)"), since Fjord, and
// keccak256("getOperatorFee(uint256)"), since Isthmus.
var (
	gasPriceOracle  = token.Address{0: 0x42, 19: 0x0f}
	l1FeeCall       = [4]byte{0xf1, 0xc7, 0xa5, 0x8b}
	operatorFeeCall = [4]byte{0x27, 0x5a, 0xed, 0xd2}
)

// oracleCall asks the oracle for a fee of something of size n.
func oracleCall(result *hexutil.Bytes, method [4]byte, n uint64) query {
	word := token.Units(n).Bytes32()
	return call("eth_call", result, callObject{To: gasPriceOracle.String(), Data: slices.Concat(method[:], word[:])}, "latest")
}

// l1Fee adds the answers of the oracle. A fee that is not known is not zero: a wallet
// without it cannot send what it has signed.
func l1Fee(words ...hexutil.Bytes) (sum token.Amount, err error) {
	for _, word := range words {
		if len(word) != 32 {
			return sum, fmt.Errorf("%w: %d bytes of the gas price oracle at %v, which every chain of the OP stack has", errAnswer, len(word),
				gasPriceOracle)
		}
		fee, err := token.AmountFromBytes(word)
		if err != nil {
			return sum, err
		}
		if sum, err = sum.Add(fee); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// Fees implements chain.Node. For a node that does not suggest a tip, the tip is
// the median of the latest block's.
func (n *Node) Fees(ctx context.Context) (chain.Market, error) {
	var history feeHistory
	var tip quantity
	calls := []query{
		call("eth_maxPriorityFeePerGas", &tip),
		call("eth_feeHistory", &history, "0x1", "latest", []int{50}),
	}
	var l1, operator hexutil.Bytes
	if n.l1Fee {
		calls = append(calls, oracleCall(&l1, l1FeeCall, chain.QuotedSize), oracleCall(&operator, operatorFeeCall, chain.QuotedGas))
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		err = firstError(calls[1:])
	}
	if n := len(history.BaseFee); err == nil && n != 1 && n != 2 {
		err = fmt.Errorf("eth_feeHistory: %w: %d base fees for one block and the next", errAnswer, n)
	}
	if err != nil {
		return chain.Market{}, fmt.Errorf("reading fees: %w", err)
	}
	market := chain.Market{BaseFee: history.BaseFee[len(history.BaseFee)-1].Amount, Tip: tip.Amount}
	if len(history.BaseFee) == 1 {
		// Avalanche's coreth leaves the next block's out: an eighth is the most
		// that it can be higher (EIP-1559, BASE_FEE_MAX_CHANGE_DENOMINATOR).
		market.BaseFee = market.BaseFee.ScaleUp(9, 8)
	}
	if n.l1Fee {
		if market.L1Fee, err = l1Fee(l1, operator); err != nil {
			return chain.Market{}, fmt.Errorf("reading fees: %w", err)
		}
	}
	if unsuggested := calls[0].Error; unsuggested != nil {
		if len(history.Reward) != 1 || len(history.Reward[0]) != 1 {
			return chain.Market{}, fmt.Errorf("reading fees: eth_maxPriorityFeePerGas: %w", unsuggested)
		}
		market.Tip = history.Reward[0][0].Amount
	}
	return market, nil
}

// reverted are the words of nodes for a call that the contract reverted, in
// lower case. fees_test.go names the client of each.
var reverted = []string{
	"execution reverted", "vm execution error", "vm exception while processing transaction",
	"always failing transaction", "invalid opcode",
}

// codeReverted is the JSON-RPC error code of a revert (geth, Erigon, Reth,
// anvil and recent Nethermind).
const codeReverted = 3

// setGas is the most that a balance that becomes non-zero costs beyond a balance that changes: 64
// bytes of state for 1,530 gas each (EIP-8037, of the fork Amsterdam). It was 17,100 before
// (EIP-2200, as EIP-2929 changed it).
const setGas = 64 * 1530

// A searched is the gas within which a node is likely to estimate batches of one size, as
// they are and to new holders. Its zero value is any.
type searched [2]count

// then returns what is likely once a batch was estimated at so much: the same if the node
// was content with it, else 0.4 % more, since the next has other digits and some nodes
// search to the last unit; or an eighth of the way down to that. A case that the token
// refused has none.
func (s searched) then(used searched) searched {
	for i, gas := range used {
		if gas == s[i] || gas == 0 {
			s[i] = gas
			continue
		}
		gas += gas / 256
		s[i] = gas + (max(s[i], gas)-gas)/8*7
	}
	return s
}

// Estimate implements chain.Node. The node estimates both cases of transfers in one
// request, so that the dearer one follows the chain's forks. Where a token refuses
// unknown recipients, the dearer case is setGas above the other for each of them.
//
// A node searches for the least gas below a cap, and executes the call each time: a
// batch three times or more, but once if the cap is within 1.5 % of what it uses (geth,
// eth/gasestimator and estimateGasErrorRatio of internal/ethapi). So the cap of a batch is
// the gas at which others of its size were estimated.
func (n *Node) Estimate(ctx context.Context, c chain.Call) (uint64, error) {
	if c.ByCall && c.Within > 0 && n.limits.Load() {
		passed, err := n.execute(ctx, c)
		if passed || err != nil {
			return c.Within, err
		}
	}
	likely := searched{}
	if kept, asked := n.searched.Load(len(c.Data)); asked && c.Batch {
		likely = kept.(searched)
	}
	used, gas, err := n.estimate(ctx, c, likely)
	if errors.Is(err, errCapped) {
		used, gas, err = n.estimate(ctx, c, searched{})
	}
	if err == nil && c.Batch {
		n.searched.Store(len(c.Data), likely.then(used))
	}
	return gas, err
}

// errCapped reports a call that a node refused within a cap, and may pass without,
// whatever the reason that the node gives.
var errCapped = errors.New("not within the gas of another")

// estimate is Estimate with a cap for each case, zero for none. It returns the gas of each case,
// zero if the token refuses it, beside the gas of the call.
func (n *Node) estimate(ctx context.Context, c chain.Call, within searched) (used searched, _ uint64, _ error) {
	var gas, dearer count
	estimate := func(c chain.Call, gas *count, within count) query {
		limit := ""
		if within > 0 {
			limit = hexOf(uint64(within))
		}
		return call("eth_estimateGas", gas, callObject{From: c.From.String(), To: c.To.String(), Value: wei(c.Value), Data: c.Data, Gas: limit})
	}
	calls := []query{estimate(c, &gas, within[0])}
	other, holders := c.ToNewHolders()
	if holders > 0 {
		calls = append(calls, estimate(other, &dearer, within[1]))
	}
	var latest *header
	var code hexutil.Bytes
	if c.Batch {
		calls = append(calls, call("eth_getCode", &code, c.To.String(), "latest"), call("eth_getBlockByNumber", &latest, "latest", false))
	}
	asked := len(calls)
	calls = append(calls, screening(c.Screening)...)
	var returned hexutil.Bytes
	if c.ByCall {
		poor := c
		poor.Within = chain.NoopGas + 16*uint64(len(c.Data)) // which its call data cost at most (EIP-2028): the token gets none
		c.Within = 0
		calls = append(calls, execution(c, &returned), execution(poor, new(hexutil.Bytes)))
	}
	calls, err := n.batch(ctx, calls...)
	if err == nil && c.ByCall && calls[len(calls)-2].Error == nil {
		_, refused := errors.AsType[*Rejection](calls[len(calls)-1].Error)
		n.limits.Store(refused)
	}
	if err == nil {
		if err := screened(c.Screening, calls[asked:]); err != nil {
			return used, 0, err
		}
	}
	if err == nil && c.Batch {
		switch err := calls[asked-2].Error; {
		case err != nil:
			return used, 0, fmt.Errorf("reading the code at %v: %w", c.To, err)
		case !bytes.Equal(code, disburser.Code()):
			return used, 0, fmt.Errorf("%w: at %v are %d bytes of other code", chain.ErrCode, c.To, len(code))
		}
	}
	for i := 0; i < len(within) && err == nil; i++ {
		if within[i] == 0 {
			continue
		}
		if _, refused := errors.AsType[*Rejection](calls[i].Error); refused {
			return used, 0, errCapped
		}
	}
	if err == nil {
		err = calls[0].Error
	}
	if err == nil && isFalse(returned) {
		return used, 0, errFalse(c)
	}
	if rejection, ok := errors.AsType[*Rejection](err); ok && rejection.reverted() {
		err := fmt.Errorf("estimating a call of %v: %w: %s", c.To, chain.ErrReverted, rejection.Words)
		if i, ok := disburser.Index(rejection.data); ok {
			err = &chain.EntryError{Index: i, Err: err}
		}
		return used, 0, err
	}
	if rejection, ok := errors.AsType[*Rejection](err); ok && c.Batch && has(rejection.Words, tooLarge) {
		err = fmt.Errorf("%w: %s", chain.ErrTooLarge, rejection.Words)
	}
	if err != nil {
		return used, 0, fmt.Errorf("estimating a call of %v: %w", c.To, err)
	}
	used = searched{gas, dearer}
	if holders > 0 && calls[1].Error != nil {
		dearer = gas + count(setGas*holders)
	}
	gas = max(gas, dearer)
	if c.Batch {
		switch err := calls[asked-1].Error; {
		case err != nil:
			return used, 0, fmt.Errorf("reading the latest block: %w", err)
		case latest == nil || latest.GasLimit == nil:
			return used, 0, fmt.Errorf("eth_getBlockByNumber: %w: no gas limit", errAnswer)
		case !chain.Fits(uint64(gas), uint64(*latest.GasLimit)):
			return used, 0, fmt.Errorf("%w: %d units are estimated", chain.ErrTooLarge, gas)
		}
	}
	return used, uint64(gas), nil
}

// execute has the node execute a transfer once, within its gas, and holds its recipients
// against the list in the same request. It reports whether the transfer passed: the token
// returned true, or nothing, as USDT does. One that did not pass, or that returned anything
// else, may yet be paid with more gas.
func (n *Node) execute(ctx context.Context, c chain.Call) (passed bool, _ error) {
	var returned hexutil.Bytes
	calls, err := n.batch(ctx, append([]query{execution(c, &returned)}, screening(c.Screening)...)...)
	if err == nil {
		if err := screened(c.Screening, calls[1:]); err != nil {
			return false, err
		}
		err = calls[0].Error
	}
	if _, failed := errors.AsType[*Rejection](err); failed {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("executing a call of %v: %w", c.To, err)
	}
	if isFalse(returned) {
		return false, errFalse(c)
	}
	return len(returned) == 0 || len(returned) == 32 && token.Units(1).Bytes32() == [32]byte(returned), nil
}

// execution is the call as the node is to execute it: within its gas, if it has one.
func execution(c chain.Call, returned *hexutil.Bytes) query {
	object := callObject{From: c.From.String(), To: c.To.String(), Value: wei(c.Value), Data: c.Data}
	if c.Within > 0 {
		object.Gas = hexOf(c.Within)
	}
	return call("eth_call", returned, object, "latest")
}

// isFalse reports whether a call returned false: EIP-20 lets a token do so in place of a
// revert.
func isFalse(returned hexutil.Bytes) bool { return bytes.Equal(returned, make([]byte, 32)) }

func errFalse(c chain.Call) error {
	return fmt.Errorf("executing a call of %v: %w: it returned false", c.To, chain.ErrReverted)
}

// tooLarge are the words of nodes for a call that needs more gas than they let it have,
// in lower case: geth, Erigon, Reth and anvil; Nethermind; Besu; Hardhat.
var tooLarge = []string{"exceeds allowance", "exceeded transaction and block gas limit", "exceeds block gas limit", "out of gas"}

// isSanctioned is the first four bytes of keccak256("isSanctioned(address)")
// (Chainalysis, "Sanctions Oracle").
var isSanctioned = [4]byte{0xdf, 0x59, 0x2f, 0x7d}

// screening asks the list for each recipient.
func screening(s chain.Screening) (calls []query) {
	for _, to := range s.Recipients {
		calls = append(calls, call("eth_call", new(hexutil.Bytes), callObject{To: s.List.String(), Data: addressCall(isSanctioned, to)},
			"latest"))
	}
	return calls
}

// screened reads the answers to screening, which calls begin with.
func screened(s chain.Screening, calls []query) error {
	for i, to := range s.Recipients {
		if err := screen(*calls[i].Result.(*hexutil.Bytes), calls[i].Error); err != nil {
			return fmt.Errorf("asking the list at %v for %v: %w", s.List, to, &chain.EntryError{Index: i, Err: err})
		}
	}
	return nil
}

// screen reads a list's answer: nil only for a plain false. An account without code returns no
// bytes, and a contract that reverts is no list.
func screen(listed hexutil.Bytes, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errAnswer, err)
	case len(listed) != 32:
		return fmt.Errorf("%w: %d bytes: no list is there", errAnswer, len(listed))
	case !bytes.Equal(listed, make([]byte, 32)):
		return chain.ErrListed
	}
	return nil
}

func (r *Rejection) reverted() bool {
	if r.Code == codeReverted {
		return true
	}
	return has(r.Words, reverted)
}

// has reports whether a node's words have one of some, which are in lower case.
func has(words string, some []string) bool {
	words = strings.ToLower(words)
	return slices.ContainsFunc(some, func(w string) bool { return strings.Contains(words, w) })
}
