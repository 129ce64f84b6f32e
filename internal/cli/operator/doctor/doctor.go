// Package doctor checks a stack and reports each problem with its fix. It changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/setting"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/chains"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// apart and apartTime are how far apart the heads of two nodes that are well may
// be, whichever is more blocks: two minutes on Ethereum, 20 s on faster chains.
const (
	apart     = 10
	apartTime = 20 * time.Second
)

// calls is how many calls a node must take in one request: as many as a round of settling
// sends.
const calls = 100

// Command is `remit doctor`. MinGasGwei has the default of the template's GasLowGwei.
type Command struct {
	deployed.Target
	MinGasGwei uint64 `name:"min-gas-gwei" default:"2000000" help:"Report wallets with less ether than this."`
}

type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Result string `json:"saw"`
	Do     string `json:"do,omitempty"` // advice; "" if all is well
}

// errFindings reports a check that found something wrong.
var errFindings = errors.New("the deployment is not well")

// Run makes all checks, and gives advice on each that found something wrong.
func (c *Command) Run(ctx context.Context, d *deployed.Deployment) error {
	onAWS := d.Account != nil
	e := &examination{Deployment: d}
	e.check(ctx, "registry", e.activeWallets, "remit wallet create --stack "+d.Stack)
	e.check(ctx, "chain", e.chainIsKnown, "")
	e.check(ctx, "settings", e.settingsHold, "remit settings show; then settings set, confirm or apply (docs/operate.md#settings)")
	if onAWS {
		e.check(ctx, "closed", e.isClosed, "deploy with these parameters (docs/parameters.md)")
		e.check(ctx, "reserved concurrency", e.isReserved,
			"ask AWS for a quota of concurrent executions of 1,000 or more, then deploy with Size=small")
	}
	e.check(ctx, "nodes agree", e.nodesAgree, `put {"urls":["https://…"]} into the secret of output RpcSecretArn; replace in it the node that is down, behind or of another chain (docs/operate.md)`)
	e.check(ctx, "providers", e.providersDiffer, "replace one in the RPC secret: nodes of one provider fail, and are wrong, together")
	e.check(ctx, "finality", e.everyNode(e.blocksBecomeFinal),
		"choose a ConfirmationRule that every node has (docs/chains.md), or a node that keeps the state of final blocks")
	e.check(ctx, "fees", e.everyNode(e.feesAreKnown),
		"replace a node without eth_feeHistory in the RPC secret; raise MaxFeeCapGwei if the market stays above it")
	e.check(ctx, "batches", e.everyNode(batchesAreTaken), "replace the node in the RPC secret, or ask its provider for a higher rate")
	e.check(ctx, "token", e.everyNode(e.tokenIsRight),
		"correct ChainId, TokenAddress and TokenDecimals and deploy, before anybody is paid; or replace the node")
	e.check(ctx, "memo", e.memoIsTaken, "remit settings set Memo=off (docs/parameters.md)")
	e.walletsAreFunded(ctx, c.MinGasGwei)
	e.batchesArePaid(ctx)
	if onAWS {
		e.check(ctx, "settings in use", e.settingsInUse,
			"see that live versions and this machine's clock are right; then deploy, which ends the processes that stay behind")
		e.check(ctx, "live versions", e.liveIsDeployed,
			"wait for a canary to end; after remit rollback deploy the commit that runs; else find out who moved the alias live")
		e.check(ctx, "keys in KMS", e.grantsFit,
			"give a missing grant as it says; end one of a stranger with aws kms revoke-grant, and of a retired wallet with remit wallet retire")
		e.check(ctx, "audit log", e.auditLogIsCopied,
			"find in CloudTrail who wrote to the table or the log group (docs/operate.md#who-did-what)")
		e.check(ctx, "tables", e.tablesAreKept, "set it as in docs/disasters.md#go-back-to-a-point-in-time, step 3; a table with the "+
			"keys of another is in the wrong parameter")
		if d.Account.Parameters["ReplicaRegion"] != "" {
			e.check(ctx, "replicas of the secrets", e.secretsAreReplicated,
				"check the secret's replication in Secrets Manager (docs/disasters.md#a-lost-region)")
		}
		e.check(ctx, "alarms", e.alarmsExist, "docs/alarms has a page for each")
	}
	var b strings.Builder
	bad := 0
	for _, f := range e.findings {
		if f.OK {
			fmt.Fprintf(&b, "ok   %-28s %s\n", f.Check, f.Result)
			continue
		}
		bad++
		fmt.Fprintf(&b, "BAD  %-28s %s\n     → %s\n", f.Check, f.Result, f.Do)
	}
	if err := d.Show(e.findings, b.String()); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d checks", errFindings, bad, len(e.findings))
	}
	return nil
}

// An examination collects the findings about one deployment.
type examination struct {
	*deployed.Deployment
	findings []finding
}

// check makes one check. examine returns what it found, or an error, which is shown with
// the advice.
func (e *examination) check(ctx context.Context, name string, examine func(context.Context) (string, error), advice string) {
	result, err := examine(ctx)
	e.found(name, result, err, advice)
}

func (e *examination) found(check, result string, err error, advice string) {
	f := finding{Check: check, OK: err == nil, Result: result}
	if err != nil {
		f.Result, f.Do = err.Error(), advice
	}
	e.findings = append(e.findings, f)
}

func (e *examination) activeWallets(ctx context.Context) (string, error) {
	wallets, err := e.Wallets(ctx)
	if err == nil && len(wallets.Active()) == 0 {
		err = errors.New("no wallet may pay")
	}
	for _, r := range wallets {
		if r.State == wallet.Damaged {
			err = errors.Join(err, fmt.Errorf("the registration of %s cannot be read: docs/alarms/UnreadableAlarm.md", r.Address))
		}
	}
	if err == nil {
		var left []token.Address
		if left, _, err = e.Unregistered(ctx); len(left) > 0 {
			err = fmt.Errorf("the keys of %s are stored, and the wallets not registered", left)
		}
	}
	return fmt.Sprintf("%d wallets, %d active", len(wallets), len(wallets.Active())), err
}

func (e *examination) nodesAgree(ctx context.Context) (string, error) {
	nodes, _, err := e.Nodes(ctx)
	if err != nil {
		return "", err
	}
	var heads, blocks []string
	lowest, highest := uint64(math.MaxUint64), uint64(0)
	for _, node := range nodes {
		head, nodeErr := node.Head(ctx, chain.ConfirmationRule{})
		if nodeErr != nil {
			err = errors.Join(err, nodeErr)
			continue
		}
		heads = append(heads, fmt.Sprintf("%s at %d", node, head.Number))
		lowest, highest = min(lowest, head.Number), max(highest, head.Number)
	}
	result := strings.Join(heads, ", ")
	own, _ := chains.Of(e.ChainID)
	if err == nil && highest-lowest > max(apart, uint64(apartTime/own.BlockTime)) {
		err = fmt.Errorf("heads are %d blocks apart: %s", highest-lowest, result)
	}
	number := lowest - min(apart, lowest)
	for _, node := range nodes {
		if err != nil {
			break
		}
		hashes, nodeErr := node.BlockHashes(ctx, []uint64{number})
		if err = nodeErr; err == nil {
			blocks = append(blocks, hashes[0].String())
		}
	}
	if err == nil && len(slices.Compact(slices.Clone(blocks))) > 1 {
		err = fmt.Errorf("nodes are on different branches, or one lacks blocks: block %d of %s is %s", number, result, strings.Join(blocks, ", "))
	}
	switch len(nodes) {
	case 1:
		result += "; it is believed alone: three that share no backend are better"
	case 2:
		result += "; payments end while both answer: of three that share no backend, one may be gone"
	}
	return result, err
}

// chainIsKnown reports the values that the stack works by. It finds nothing wrong.
func (e *examination) chainIsKnown(ctx context.Context) (string, error) {
	own, known := chains.Of(e.ChainID)
	name := own.Name
	if !known {
		name = fmt.Sprintf("%d, which docs/chains.md does not have", e.ChainID)
	}
	rules, err := e.Rules(ctx)
	if err != nil {
		return "", err
	}
	result := fmt.Sprintf("%s: %s, %s, at most %s gwei, %d in flight", name, e.Config.ConfirmationRule, e.Config.BlockTime,
		rules.FeeLimit.Tokens(9), rules.Window)
	if known && e.Config.ConfirmationRule != own.ConfirmationRule {
		result += fmt.Sprintf("; usually %s is waited for", own.ConfirmationRule)
	}
	if known && own.USDC != "" && e.Asset.Symbol == "USDC" && !strings.EqualFold(own.USDC, e.Asset.Contract.String()) {
		result += "; the token is not Circle's USDC, which is at " + own.USDC
	}
	return result, nil
}

// everyNode returns the check that see finds nothing wrong with any node.
func (e *examination) everyNode(examine func(ctx context.Context, node chain.Node, url string) (string,
	error)) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		nodes, urls, err := e.Nodes(ctx)
		var result []string
		for i, node := range nodes {
			text, nodeErr := examine(ctx, node, urls[i])
			if nodeErr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", node, nodeErr))
			}
			result = append(result, fmt.Sprintf("%s: %s", node, text))
		}
		return strings.Join(result, ", "), err
	}
}

// providersDiffer treats hosts of one domain as nodes of one provider. IP addresses have no
// domain: only equal ones count as one provider.
func (e *examination) providersDiffer(ctx context.Context) (string, error) {
	nodes, _, err := e.Nodes(ctx)
	of := map[string]string{}
	for _, node := range nodes {
		host := node.String()
		domain := host
		if name := (&url.URL{Host: host}).Hostname(); net.ParseIP(name) == nil {
			if registered, nameErr := publicsuffix.EffectiveTLDPlusOne(name); nameErr == nil {
				domain = registered
			}
		}
		if other := of[domain]; other != "" {
			err = errors.Join(err, fmt.Errorf("%s and %s are of one provider", other, host))
		}
		of[domain] = host
	}
	return fmt.Sprintf("%d", len(of)), err
}

// blocksBecomeFinal finds a node on which no payment would ever end, because it has no block with
// the confirmation rule's tag or has dropped that block's state.
func (e *examination) blocksBecomeFinal(ctx context.Context, node chain.Node, _ string) (string, error) {
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
	pace, behind := e.Config.BlockTime, head.Number-head.Final
	if own, known := chains.Of(e.ChainID); known {
		pace = own.BlockTime
	}
	return fmt.Sprintf("%d blocks behind, about %s", behind, (time.Duration(behind) * pace).Round(time.Second)), nil
}

// feesAreKnown finds a node that cannot price gas, and a market above the limit.
func (e *examination) feesAreKnown(ctx context.Context, node chain.Node, _ string) (string, error) {
	m, err := node.Fees(ctx)
	price, _ := m.BaseFee.Add(m.Tip)
	gas := price.Tokens(9) + " gwei"
	result := gas
	if !m.L1Fee.IsZero() {
		result += ", and " + m.L1Fee.Tokens(9) + " gwei a payment beside gas"
	}
	if rules, unusable := e.Rules(ctx); err == nil && unusable == nil && rules.FeeLimit.Less(price) {
		err = fmt.Errorf("gas costs %s, more than MaxFeeCapGwei: payments wait", gas)
	}
	return result, err
}

// batchesAreTaken finds a node that does not answer as many calls as a round makes,
// in requests as large as it takes.
func batchesAreTaken(ctx context.Context, node chain.Node, _ string) (string, error) {
	if _, err := node.BlockHashes(ctx, make([]uint64, calls)); err != nil {
		return "", err
	}
	size := calls
	if n, ok := node.(*ethrpc.Node); ok {
		size = n.BatchSize()
	}
	return fmt.Sprintf("takes %d calls in one request", size), nil
}

func (e *examination) tokenIsRight(ctx context.Context, _ chain.Node, url string) (string, error) {
	id, got, err := ethrpc.Discover(ctx, url, e.Asset.Contract)
	switch {
	case err != nil:
	case id != e.ChainID:
		err = fmt.Errorf("%w: %d, ChainId is %d", chain.ErrWrongChain, id, e.ChainID)
	case got.Decimals != e.Asset.Decimals:
		err = fmt.Errorf("the contract has %d decimals, TokenDecimals is %d", got.Decimals, e.Asset.Decimals)
	}
	return fmt.Sprintf("%s with %d decimals at %s", got.Symbol, got.Decimals, e.Asset.Contract), err
}

// memoIsTaken finds a token that makes a transfer only if no payment's id follows its arguments.
func (e *examination) memoIsTaken(ctx context.Context) (string, error) {
	rules, unusable := e.Rules(ctx)
	wallets, walletsErr := e.Wallets(ctx)
	nodes, _, nodesErr := e.Nodes(ctx)
	if err := errors.Join(unusable, walletsErr, nodesErr); err != nil {
		return "", err
	}
	if rules.MemoOff {
		return "off", nil
	}
	var holders []token.Address
	for _, from := range wallets.Active() {
		if v, err := e.View(ctx, nodes, from); err == nil && !v.Balance.IsZero() {
			holders = append(holders, from)
		}
	}
	tried, err := e.TakesMemo(ctx, nodes, holders...)
	if !tried {
		return fmt.Sprint("not tried: ", err), nil // payments report why
	}
	return "the token takes a payment's id after the arguments of a transfer", err
}

// walletsAreFunded makes a finding of each wallet, and one if it cannot.
func (e *examination) walletsAreFunded(ctx context.Context, minGasGwei uint64) {
	wallets, walletsErr := e.Wallets(ctx)
	nodes, _, nodesErr := e.Nodes(ctx)
	if err := errors.Join(walletsErr, nodesErr); err != nil {
		e.found("wallets", "", err, "check your rights on the payments table and the RPC secret")
		return
	}
	symbol := e.Asset.Symbol
	least, _ := token.Units(minGasGwei).Times(1_000_000_000) // 64 bits of gwei fit into 256 of wei
	for _, r := range wallets {
		if r.State == wallet.Retired {
			continue
		}
		name, advice := "wallet "+r.Address.String()[:10], "send "+symbol+" and ether for gas to "+r.Address.String()
		if e.Config.GasUnit > 0 {
			advice = "send " + symbol + " to " + r.Address.String()
		}
		w, unread := e.Payments.Wallet(ctx, r.ID)
		if unread != nil && !errors.Is(unread, wallet.ErrUnknown) {
			e.found(name, "", unread, "check your rights on the payments table")
			continue
		}
		v, err := e.View(ctx, nodes, r.Address)
		if err != nil {
			e.found(name, "", err, "see nodes")
			continue
		}
		switch {
		case w.Paused != "":
			err, advice = fmt.Errorf("%w: %s", wallet.ErrPaused, w.Paused),
				"docs/alarms explains it; then remit wallet resume "+r.Address.String()
		case unread == nil && v.Mined > w.NextNonce:
			err, advice = fmt.Errorf("%w: %d mined, next nonce %d", wallet.ErrBehind, v.Mined, w.NextNonce),
				"pause every wallet and read docs/alarms: the key is used elsewhere, or the tables were restored"
		case r.State == wallet.Active && v.Balance.IsZero():
			err = errors.New("holds no " + symbol)
		case r.State == wallet.Active && e.Config.GasUnit == 0 && v.Gas.Less(least):
			err = errors.New("holds " + e.Gas(v.Gas))
		}
		e.found(name, e.Holds(v.Account), err, advice)
	}
}

// batchesArePaid makes a finding of the contract, and one of each wallet's allowance.
func (e *examination) batchesArePaid(ctx context.Context) {
	rules, err := e.Rules(ctx)
	at := rules.BatchContract
	if err != nil || at.IsZero() {
		return
	}
	e.check(ctx, "batch contract", e.everyNode(func(ctx context.Context, node chain.Node, _ string) (string, error) {
		return at.String(), deployed.HasCode(ctx, node, at, disburser.Code())
	}), "remit batch deploy --stack "+e.Stack+"; then set BatchContract to the address that it prints. Until then pay no batches")
	wallets, err := e.Wallets(ctx)
	if err != nil {
		e.found("batch allowances", "", err, "check your rights on the payments table")
	}
	for _, r := range wallets {
		if r.State != wallet.Active {
			continue
		}
		allowed, err := e.Allowance(ctx, r.Address, at)
		if err == nil && allowed.IsZero() {
			err = errors.New("the batch contract may take nothing")
		}
		e.found("allowance "+r.Address.String()[:10], e.Allowed(allowed), err, "remit batch approve "+r.Address.String())
	}
}

// settingsHold finds settings that stop payments or keys.
func (e *examination) settingsHold(ctx context.Context) (string, error) {
	tables, err := setting.Read(ctx, e.Deployment)
	var result []string
	for _, t := range tables {
		result = append(result, fmt.Sprintf("%s at version %d", t.Kind(), t.Stamp().Version))
		unfit := t.Unusable()
		if unfit == nil {
			unfit = t.Refused()
		}
		if unfit == nil && !t.Stamp().Confirmed && e.Mode == "live" {
			unfit = errors.New("not confirmed for this table, which was restored")
		}
		if unfit != nil {
			err = errors.Join(err, fmt.Errorf("%s, version %d: %w", t.Kind(), t.Stamp().Version, unfit))
		}
	}
	return strings.Join(result, ", "), err
}
