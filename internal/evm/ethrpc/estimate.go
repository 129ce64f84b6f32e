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

// reverted has the words with which nodes report a revert, in lower case. testdata/answers.tsv names the client of each.
var reverted = []string{
	"execution reverted", "vm execution error", "vm exception while processing transaction",
	"always failing transaction", "invalid opcode",
}

// codeReverted is the JSON-RPC error code of a revert (geth, Erigon, Reth, anvil and recent Nethermind).
const codeReverted = 3

// setGas is the most that making a balance non-zero costs beyond changing one: 64 bytes of state for 1,530 gas each
// (EIP-8037, of the fork Amsterdam). It was 17,100 before (EIP-2200, as EIP-2929 changed it).
const setGas = 64 * 1530

// searched has gas limits for a node's estimates of batches of one size, as they are and to new holders; zero: none.
type searched [2]count

// then returns the limits for the next batch, given the gas of the last one: unchanged if the node accepted them, and
// none for a case that the token refused. Otherwise it adds 0.4 %, since the next batch has other digits and some
// nodes search to the last unit, or goes an eighth of the way down to that.
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

// Estimate implements chain.Node. The node estimates both cases of transfers in one request, so that the dearer case
// follows the chain's forks. If a token refuses unknown recipients, each of them costs setGas more.
//
// A node searches for the least gas below a limit, and executes the call each time: a batch three times or more, but
// once if the limit is within 1.5 % of the gas used (geth, eth/gasestimator and estimateGasErrorRatio of
// internal/ethapi). So the limit of a batch is the estimate of earlier batches of its size.
func (n *Node) Estimate(ctx context.Context, c chain.Call) (uint64, error) {
	if c.At > 0 {
		return 0, n.reason(ctx, c)
	}
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

// errCapped reports a call that a node refused with a gas limit. It may pass without one.
var errCapped = errors.New("not within the gas of another")

// An estimation has the calls that estimate a chain.Call, and their answers.
type estimation struct {
	chain.Call
	within         searched // the gas limit of each case; zero: none
	holders        uint64   // the new holders of the dearer case
	plain, dearer  count
	latest         *header
	code, returned hexutil.Bytes
	calls          []query
	screening      int // the index of the list's first answer
}

func estimationOf(c chain.Call, within searched) *estimation {
	e := &estimation{Call: c, within: within}
	estimate := func(c chain.Call, gas *count, within count) {
		object := callObject{From: c.From.String(), To: c.To.String(), Value: wei(c.Value), Data: c.Data}
		if within > 0 {
			object.Gas = hexOf(uint64(within))
		}
		e.calls = append(e.calls, call("eth_estimateGas", gas, object))
	}
	estimate(c, &e.plain, within[0])
	other, holders := c.ToNewHolders()
	if e.holders = holders; holders > 0 {
		estimate(other, &e.dearer, within[1])
	}
	if c.Batch {
		e.calls = append(e.calls, call("eth_getCode", &e.code, c.To.String(), "latest"),
			call("eth_getBlockByNumber", &e.latest, "latest", false))
	}
	e.screening = len(e.calls)
	e.calls = append(e.calls, screening(c.Screening)...)
	if c.ByCall {
		poor := c
		poor.Within = chain.NoopGas / 2 // too little for two cold balances, even where gas costs less (EIP-2780)
		c.Within = 0
		e.calls = append(e.calls, execution(c, &e.returned, "latest"), execution(poor, new(hexutil.Bytes), "latest"))
	}
	return e
}

// estimate is Estimate with a gas limit for each case, zero for none. It returns the gas of each
// case, zero if the token refuses it, and the gas of the call.
func (n *Node) estimate(ctx context.Context, c chain.Call, within searched) (used searched, gas uint64, err error) {
	e := estimationOf(c, within)
	if e.calls, err = n.batch(ctx, e.calls...); err == nil {
		if last := len(e.calls) - 1; c.ByCall && e.calls[last-1].Error == nil {
			n.limits.Store(isRejection(e.calls[last].Error))
		}
		if err := e.refusal(); err != nil {
			return used, 0, err
		}
		err = e.calls[0].Error
	}
	if err == nil && isFalse(e.returned) {
		return used, 0, errFalse(c)
	}
	if err != nil {
		return used, 0, estimating(c, err)
	}
	used = searched{e.plain, e.dearer}
	gas, err = e.gas()
	return used, gas, err
}

// refusal returns the first reason not to make the call that its own estimate does not give.
func (e *estimation) refusal() error {
	if err := screened(e.Screening, e.calls[e.screening:]); err != nil {
		return err
	}
	if e.Batch {
		switch err := e.calls[e.screening-2].Error; {
		case err != nil:
			return fmt.Errorf("reading the code at %v: %w", e.To, err)
		case !bytes.Equal(e.code, disburser.Code()):
			return fmt.Errorf("%w: at %v are %d bytes of other code", chain.ErrCode, e.To, len(e.code))
		}
	}
	for i, gas := range e.within {
		if gas > 0 && isRejection(e.calls[i].Error) {
			return errCapped
		}
	}
	return nil
}

func (e *estimation) gas() (uint64, error) {
	if e.holders > 0 && e.calls[1].Error != nil {
		e.dearer = e.plain + count(setGas*e.holders)
	}
	gas := uint64(max(e.plain, e.dearer))
	if gas < chain.NoopGas || e.ByCall && !e.Batch && !chain.Fits(gas, 1<<63) {
		return 0, fmt.Errorf("eth_estimateGas: %w: %d gas, as no transaction has", errAnswer, gas)
	}
	if e.Batch {
		switch err := e.calls[e.screening-1].Error; {
		case err != nil:
			return 0, fmt.Errorf("reading the latest block: %w", err)
		case e.latest == nil || e.latest.GasLimit == nil:
			return 0, fmt.Errorf("eth_getBlockByNumber: %w: no gas limit", errAnswer)
		case !chain.Fits(gas, uint64(*e.latest.GasLimit)):
			return 0, fmt.Errorf("%w: %d units are estimated", chain.ErrTooLarge, gas)
		}
	}
	return gas, nil
}

func estimating(c chain.Call, err error) error {
	rejection, ok := errors.AsType[*Rejection](err)
	switch {
	case ok && rejection.reverted():
		err = fmt.Errorf("estimating a call of %v: %w: %s", c.To, chain.ErrReverted, rejection.Words)
		if i, ok := disburser.Index(rejection.data); ok {
			err = &chain.EntryError{Index: i, Err: err}
		}
		return err
	case ok && c.Batch && has(rejection.Words, tooLarge):
		err = fmt.Errorf("%w: %s", chain.ErrTooLarge, rejection.Words)
	}
	return fmt.Errorf("estimating a call of %v: %w", c.To, err)
}

// execute makes the node execute a transfer once, within its gas, and screens its recipients in the
// same request. passed means that the token returned true, or nothing, as USDT does. A transfer
// that did not pass may still be paid with more gas.
func (n *Node) execute(ctx context.Context, c chain.Call) (passed bool, _ error) {
	var returned hexutil.Bytes
	calls, err := n.batch(ctx, append([]query{execution(c, &returned, "latest")}, screening(c.Screening)...)...)
	if err == nil {
		if err := screened(c.Screening, calls[1:]); err != nil {
			return false, err
		}
		err = calls[0].Error
	}
	switch {
	case isRejection(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("executing a call of %v: %w", c.To, err)
	case isFalse(returned):
		return false, errFalse(c)
	}
	return len(returned) == 0 || len(returned) == 32 && token.Units(1).Bytes32() == [32]byte(returned), nil
}

// execution returns the eth_call of c on the state after a block, within its gas if it has a limit.
func execution(c chain.Call, returned *hexutil.Bytes, block string) query {
	object := callObject{From: c.From.String(), To: c.To.String(), Value: wei(c.Value), Data: c.Data,
		Cap: wei(c.Fees.Cap), Tip: wei(c.Fees.Tip)}
	if c.Within > 0 {
		object.Gas = hexOf(c.Within)
	}
	return call("eth_call", returned, object, block)
}

// isFalse reports whether a call returned false: EIP-20 lets a token do so instead of reverting.
func isFalse(returned hexutil.Bytes) bool { return bytes.Equal(returned, make([]byte, 32)) }

func errFalse(c chain.Call) error {
	return fmt.Errorf("executing a call of %v: %w: it returned false", c.To, chain.ErrReverted)
}

// tooLarge has the words of nodes for a call that needs more gas than they allow, in lower case:
// geth, Erigon, Reth and anvil; Nethermind; Besu; Hardhat.
var tooLarge = []string{"exceeds allowance", "exceeded transaction and block gas limit", "exceeds block gas limit",
	"out of gas"}

// screening asks a list of the form of Chainalysis's Sanctions Oracle for each recipient.
func screening(s chain.Screening) (calls []query) {
	for _, to := range s.Recipients {
		object := callObject{To: s.List.String(), Data: addressCall("isSanctioned(address)", to)}
		calls = append(calls, call("eth_call", new(hexutil.Bytes), object, "latest"))
	}
	return calls
}

func screened(s chain.Screening, calls []query) error {
	for i, to := range s.Recipients {
		if err := screen(*calls[i].Result.(*hexutil.Bytes), calls[i].Error); err != nil {
			return fmt.Errorf("asking the list at %v for %v: %w", s.List, to, &chain.EntryError{Index: i, Err: err})
		}
	}
	return nil
}

// screen reads one answer of a list: nil only for a plain false. An account without code returns no bytes.
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

func (r *Rejection) reverted() bool { return r.Code == codeReverted || has(r.Words, reverted) }

// has reports whether a node's words contain one of some, which are in lower case.
func has(words string, some []string) bool {
	words = strings.ToLower(words)
	return slices.ContainsFunc(some, func(w string) bool { return strings.Contains(words, w) })
}
