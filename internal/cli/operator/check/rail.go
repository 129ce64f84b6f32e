package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// The heads of two nodes that are well are at most so many blocks apart, or blocks of so long, if these are more.
const (
	apart     = 10
	apartTime = 20 * time.Second
)

func (e *examination) ofRail() []check {
	const when = warning | always
	all := []check{
		{"registry", always, e.activeWallets,
			"remit wallet drain ADDRESS --undo, or remit wallet create --stack " + e.Stack + " --rail " + e.Name()},
		{"nodes agree", when, e.nodesAgree, fmt.Sprintf(`put "%d":{"urls":["https://…"]} into the secret of output `+
			"RpcSecretArn; replace a node that is down, behind, of another chain or of another's provider "+
			"(docs/operate.md#change-the-nodes)", e.ChainID)},
	}
	if e.noNodes != nil {
		return all
	}
	return append(all, []check{
		{"finality", when, e.everyNode(e.blocksBecomeFinal),
			"choose a ConfirmationRule of every node (docs/chains.md), or nodes that keep the state of final blocks"},
		{"fees", when, e.everyNode(e.feesAreKnown),
			"replace a node without eth_feeHistory; raise MaxFeeCapGwei if the market stays above it"},
		{"token", when, e.everyNode(e.tokenIsRight),
			"close the rail before anybody is paid and add the right one (docs/operate.md#rails); or replace the node"},
	}...)
}

// nodesAgree finds nodes that are behind or on another branch, and two of one host, which it takes for one provider's.
func (e *examination) nodesAgree(ctx context.Context) (string, error) {
	if e.noNodes != nil {
		return "", e.noNodes
	}
	var err error
	var heads, blocks []string
	lowest, highest, hosts := uint64(math.MaxUint64), uint64(0), map[string]bool{}
	for _, node := range e.nodes {
		head, failed := node.Head(ctx, chain.ConfirmationRule{})
		if hosts[node.String()] {
			err = errors.Join(err, fmt.Errorf("two nodes are at %s, and would fail together", node))
		}
		hosts[node.String()] = true
		heads = append(heads, fmt.Sprintf("%s at %d", node, head.Number))
		lowest, highest = min(lowest, head.Number), max(highest, head.Number)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", node, failed))
		}
	}
	if err != nil {
		return "", err
	}
	result := strings.Join(heads, ", ")
	if own, _ := chains.Of(e.ChainID); highest-lowest > max(apart, uint64(apartTime/own.BlockTime)) {
		return "", fmt.Errorf("heads are %d blocks apart: %s", highest-lowest, result)
	}
	number := lowest - min(apart, lowest)
	for _, node := range e.nodes {
		hashes, err := node.BlockHashes(ctx, []uint64{number})
		if err != nil {
			return "", err
		}
		blocks = append(blocks, hashes[0].String())
	}
	if len(slices.Compact(slices.Clone(blocks))) > 1 {
		return "", fmt.Errorf("nodes are on different branches, or one lacks blocks: block %d of %s is %s",
			number, result, strings.Join(blocks, ", "))
	}
	few := map[int]string{1: "; it is believed alone: three that share no backend are better",
		2: "; payments end while both answer: of three that share no backend, one may be gone"}[len(e.nodes)]
	if few != "" && e.now != nil && e.Mode == "live" && e.Config.SilentAfter == 0 {
		return "", errors.New(result + few)
	}
	return result + few, nil
}

// repairable returns err, or in its place, if a node does not answer, a problem without the check's repair.
func repairable(ctx context.Context, err error, nodes ...chain.Node) error {
	for _, node := range nodes {
		if _, silent := node.Head(ctx, chain.ConfirmationRule{}); err != nil && silent != nil {
			return fixed("have the node answer first, or replace it (see \"nodes agree\"), then run this again",
				"not checked, since %s does not answer: %w", node, silent)
		}
	}
	return err
}

func (e *examination) everyNode(
	examine func(ctx context.Context, node chain.Node) (string, error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (_ string, err error) {
		var result []string
		for _, node := range e.nodes {
			text, nodeErr := examine(ctx, node)
			if nodeErr != nil {
				err = errors.Join(err, repairable(ctx, fmt.Errorf("%s: %w", node, nodeErr), node))
			}
			result = append(result, fmt.Sprintf("%s: %s", node, text))
		}
		return strings.Join(result, ", "), err
	}
}

// blocksBecomeFinal finds a node without a final block, or without its state: no payment would ever end on it.
func (e *examination) blocksBecomeFinal(ctx context.Context, node chain.Node) (string, error) {
	rule := e.Config.ConfirmationRule
	head, err := node.Head(ctx, rule)
	if err == nil && head.Final == 0 && rule.Tag != "" {
		err = fmt.Errorf("has no %s block, so no payment would ever be final", rule.Tag)
	}
	if err != nil {
		return "", err
	}
	if _, err := node.Count(ctx, token.Address{}, head.Final); err != nil {
		return "", fmt.Errorf("lacks the state of the final block, so no payment would ever end: %w", err)
	}
	pace, behind := e.Config.BlockTime, time.Duration(head.Number-head.Final)
	if own, known := chains.Of(e.ChainID); known {
		pace = own.BlockTime
	}
	return fmt.Sprintf("%s is %d blocks behind, about %s", rule, behind, (behind * pace).Round(time.Second)), nil
}

func (e *examination) feesAreKnown(ctx context.Context, node chain.Node) (string, error) {
	m, err := node.Fees(ctx)
	price, _ := m.BaseFee.Add(m.Tip)
	gas := price.Tokens(9) + " gwei"
	result := gas
	if !m.L1Fee.IsZero() {
		result += ", and " + m.L1Fee.Tokens(9) + " gwei a payment beside gas"
	}
	if err == nil && e.noRules == nil && e.rules.FeeLimit.Less(price) {
		err = fmt.Errorf("gas costs %s, more than MaxFeeCapGwei: payments wait", gas)
	}
	return result, err
}

func (e *examination) tokenIsRight(ctx context.Context, node chain.Node) (string, error) {
	got, err := inspect.Token(ctx, node.(*ethrpc.Node), e.Asset.Contract) // Nodes opens no others
	if err == nil && got.Decimals != e.Asset.Decimals {
		err = fmt.Errorf("the contract has %d decimals, TokenDecimals is %d", got.Decimals, e.Asset.Decimals)
	}
	return fmt.Sprintf("%s with %d decimals at %s", got.Symbol, got.Decimals, e.Asset.Contract), err
}

func (e *examination) ofWallets() (all []check) {
	if err := cmp.Or(e.noWallets, e.noNodes); err != nil {
		return []check{{"wallets", always, func(context.Context) (string, error) { return "", err },
			"check your rights on the payments table and the RPC secret"}}
	}
	at := e.rules.BatchContract
	batches := e.noRules == nil && !at.IsZero()
	if batches {
		all = append(all, check{"batch contract", always, func(ctx context.Context) (string, error) {
			return at.String(), repairable(ctx, e.EveryNodeHas(ctx, at, disburser.Code()), e.nodes...)
		}, "run remit batch deploy and set BatchContract to its address; until then pay no batches"})
	}
	for _, r := range e.wallets {
		name := r.Address.String()
		if r.State != wallet.Retired {
			all = append(all, check{"wallet " + name[:10], always,
				func(ctx context.Context) (string, error) { return e.isFunded(ctx, r) }, "check rights and nodes"})
		}
		if batches && (r.State == wallet.Active || r.State == wallet.Assigned) {
			all = append(all, check{"allowance " + name[:10], always, func(ctx context.Context) (string, error) {
				allowed, err := e.Allowance(ctx, r.Address, at)
				if err == nil && allowed.IsZero() {
					err = errors.New("the batch contract may take nothing")
				}
				return e.Allowed(allowed), repairable(ctx, err, e.nodes...)
			}, "remit batch approve " + name + " --amount AMOUNT --key KEY"})
		}
	}
	return all
}

func (e *examination) isFunded(ctx context.Context, r wallet.Registration) (string, error) {
	w, unread := e.Payments.Wallet(ctx, r.ID)
	if unread != nil && !errors.Is(unread, wallet.ErrUnknown) {
		return "", unread
	}
	v, err := e.nodes.View(ctx, r.Address, e.Asset.Contract, chain.ConfirmationRule{})
	if err != nil {
		return "", err
	}
	least, _ := token.Units(e.On.Settings.GasLow()).Times(1_000_000_000) // fits 256 bits
	switch address := r.Address.String(); {
	case w.Paused != "":
		return "", fixed("find the reason in docs/alarms/WalletPausedAlarm.md", "%w: %s", wallet.ErrPaused, w.Paused)
	case unread == nil && v.Mined > w.NextNonce:
		return "", fixed("pause every wallet: the key is used elsewhere, or the tables were restored: "+
			"docs/alarms/NonceConsumedAlarm.md", "%w: %d mined, next nonce %d", wallet.ErrBehind, v.Mined, w.NextNonce)
	case r.State == wallet.Active && v.Balance.IsZero():
		return "", fixed("send "+e.Asset.Symbol+" to "+address, "holds no %s", e.Asset.Symbol)
	case (r.State == wallet.Active || r.State == wallet.Assigned) && e.Config.GasUnit == 0 && v.Gas.Less(least):
		return "", fixed("send ether for gas to "+address, "holds %s", e.Gas(v.Gas))
	}
	return e.Holds(v.Account), nil
}

// activeWallets finds a stack without a wallet that pays, and wallets whose registration is lost.
func (e *examination) activeWallets(ctx context.Context) (string, error) {
	err := e.noWallets
	paying := func(r wallet.Registration) bool { return r.State == wallet.Active || r.State == wallet.Assigned }
	if err == nil && !e.On.Settings.Closed && !slices.ContainsFunc(e.wallets, paying) {
		err = errors.New("no wallet may pay")
	}
	for _, r := range e.wallets {
		if r.State == wallet.Damaged {
			err = errors.Join(err, fmt.Errorf("%s: unreadable registration: docs/alarms/UnreadableAlarm.md", r.Address))
		}
	}
	if err == nil {
		var left []token.Address
		if left, err = e.Unregistered(ctx); len(left) > 0 {
			err = fmt.Errorf("the keys of %s are stored, and the wallets not registered", left)
		}
	}
	return fmt.Sprintf("wallets: %d, active: %d", len(e.wallets), len(e.wallets.Paying(""))), err
}
