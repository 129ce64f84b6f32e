package setting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Rails is `remit rails`.
type Rails struct {
	Add   change.Command[add]    `cmd:"" help:"Add an asset, with its settings." example:"base --rpc https://…"`
	List  list                   `cmd:"" help:"List the rails; the first is the default."`
	Close change.Command[closes] `cmd:"" set:"closed=true" help:"Refuse new payments of a rail." example:"usdc@base"`
	Open  change.Command[closes] `cmd:"" set:"closed=false" help:"Take new payments again." example:"usdc@base"`
}

// meaning warns of values that change more than their setting's name says.
var meaning = map[string]string{
	"Closed=true": "    New payments on it are refused; those under way settle. It no longer stops others\n" +
		"    after a loss of tables: a payment that was made on it and lost can be made again on another,\n" +
		"    under the same key. If tables may have been lost, run remit recover first. If check-receipts pauses\n" +
		"    for five minutes later on, the closed rail stops the others again: open and close it once more.\n",
	"Memo=off": "    If tables are lost, remit recover cannot name the payments made from now on.\n",
}

type add struct {
	Chain  string   `arg:"" help:"The chain's name in docs/chains.md, or its number."`
	Values []string `arg:"" optional:"" placeholder:"NAME=VALUE" help:"Settings other than the defaults."`
	Token  string   `placeholder:"ADDRESS" help:"The token's contract. Empty: Circle's USDC."`
	RPC    []string `name:"rpc" placeholder:"URL" help:"A node, asked now and kept in the RPC secret; may be repeated."`
	Reason string   `help:"Why, for the history."`
}

// Change stores the rail, then its nodes: those of a chain without a rail stand for a lost one (docs/guarantees.md).
func (c add) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	nodes, unseen := d.RPC(ctx)
	first, err := c.first(ctx, nodes)
	if err != nil {
		return none, fmt.Errorf("nothing was changed: %w", err)
	}
	on := *d
	on.ChainID, on.Asset = first.ChainID, first.Token
	on.Config, err = chains.Read(d.Mode, first.Rail)
	rules, unread := d.Payments.Rules(ctx)
	if err = cmp.Or(err, d.MayPay(first.ChainID), unread, unseen); err != nil {
		return none, err
	}
	lost := rules.Rail(first.Coin())
	if !errors.Is(lost.Unusable, settings.ErrMissing) {
		return none, fmt.Errorf("nothing was changed: %s is a rail already; use remit settings set", on.Name())
	}
	note, unread := d.Payments.Compared(ctx, token.Coin{ChainID: first.ChainID})
	on.On = lost
	made, err := write(&on, []*Table{{Deployment: &on, Next: first}}, false, c.Reason)
	if err = cmp.Or(unread, err); err != nil {
		return none, err
	}
	stored, text := made.Apply, fmt.Sprintf("This adds rail %d, %s: %s.\n", len(rules.Rails)+1, on.Name(), first.Coin())
	_, named := nodes[first.ChainID]
	again := named && len(rules.Without([]uint64{first.ChainID})) > 0 || !note.Ran.IsZero()
	if again {
		text += "Its chain has or had nodes in the RPC secret without a rail. If the tables were restored to a time " +
			"before this rail was added, payments on it are lost, so nothing new is paid on any rail until remit " +
			"recover has ended, or until you close this rail.\n"
	}
	if len(rules.Rails) > 0 {
		text += fmt.Sprintf("Merchants with limits of their own (remit merchants list) have the stack's here until "+
			"each is set: remit merchants limit mer_… --asset %s.\n", first.Coin())
	}
	put, how := c.RPC, ""
	if has := len(nodes[first.ChainID]); has > 0 { // which the chain's other rails use
		put, how = nil, fmt.Sprintf("It uses the %d nodes of its chain in the RPC secret, and none of --rpc.\n", has)
	} else if len(put) == 0 {
		how = fmt.Sprintf("NO NODE WAS ASKED about the token (see --rpc), and a rail cannot be removed.\n"+
			"It pays once the RPC secret has its nodes: \"%d\":{\"urls\":[\"https://…\"]}.\n", first.ChainID)
	}
	made.Consequences = text + how + made.Consequences
	made.Apply = func(ctx context.Context) (change.Answer, error) {
		if again { // no run may have come since the tables were restored
			if err := store.NoteLost(ctx, d.Payments, first.ChainID, time.Now()); err != nil {
				return change.Answer{}, fmt.Errorf("nothing was changed: %w", err)
			}
		}
		answer, err := stored(ctx)
		if err == nil && len(put) > 0 {
			if err = d.PutRPC(ctx, first.ChainID, put); err != nil {
				err = fmt.Errorf("the rail is added, and the RPC secret may lack its nodes; put them there: %w", err)
			}
		}
		return answer, err
	}
	return made, nil
}

// first returns the first version of the rail's settings. The answers of the nodes of --rpc, or for a token that is not
// known those of the RPC secret, fill in the token's symbol and decimals.
func (c add) first(ctx context.Context, nodes map[uint64][]string) (none settings.Settings, err error) {
	own, err := chains.Named(c.Chain)
	values, twice := parse(c.Values)
	if err = cmp.Or(err, twice); err != nil {
		return none, err
	}
	urls, of := c.RPC, "--rpc"
	if len(urls) == 0 && cmp.Or(c.Token, values["TokenAddress"]) != "" {
		urls, of = nodes[own.ID], "the RPC secret"
	}
	values["TokenAddress"] = cmp.Or(c.Token, values["TokenAddress"], own.USDC)
	contract, err := token.ParseAddress(values["TokenAddress"])
	if err != nil {
		return none, fmt.Errorf("the token (--token): %w", err)
	}
	var read token.Token
	for i, url := range urls {
		var got token.Token
		node, err := ethrpc.Open(url, ethrpc.Config{ChainID: own.ID})
		if err == nil {
			got, err = inspect.Token(ctx, node, contract)
		}
		if list, unset := token.ParseAddress(values["SanctionsList"]); err == nil && unset == nil {
			err = inspect.Screens(ctx, node, list)
		}
		if err == nil && i > 0 && got != read {
			err = fmt.Errorf("it has %s with %d decimals, another has %s with %d; leave out the wrong one",
				got.Symbol, got.Decimals, read.Symbol, read.Decimals)
		}
		if err != nil {
			return none, fmt.Errorf("node %d of %s: %w", i+1, of, err)
		}
		read = got
	}
	if len(urls) > 0 {
		decimals := fmt.Sprint(read.Decimals)
		if asked := cmp.Or(values["TokenDecimals"], decimals); asked != decimals {
			return none, fmt.Errorf("the contract has %s decimals, not %s; leave TokenDecimals out", decimals, asked)
		}
		values["TokenDecimals"], values["TokenSymbol"] = decimals, cmp.Or(values["TokenSymbol"], read.Symbol)
	}
	return own.First(values)
}

type list struct{ deployed.Target }

func (*list) Run(ctx context.Context, d *deployed.Deployment) error {
	rails, err := d.Rails(ctx)
	if err != nil {
		return err
	}
	rows, text := []map[string]any{}, ""
	for _, on := range rails {
		s, asset := on.On.Settings, on.On.Coin.String()
		row := map[string]any{"number": on.Number, "name": on.Name(), "asset": asset, "closed": s.Closed,
			"version": s.Version}
		state := map[bool]string{false: "open", true: "closed"}[s.Closed]
		if on.On.Unusable != nil {
			state = on.On.Unusable.Error()
			row["error"] = state
		}
		rows = append(rows, row)
		text += fmt.Sprintf("%d  %-20s  %s  version %d  %s\n", on.Number, on.Name(), state, s.Version, asset)
	}
	return d.Show(rows, text)
}

type closes struct {
	Name   string `arg:"" help:"The rail: such as usdc@base, or its number."`
	Reason string `help:"Why, for the history."`
	Closed string `hidden:"" default:"${closed}"`
}

func (c closes) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	on := *d
	on.Rail = c.Name
	return set{Values: []string{"Closed=" + c.Closed}, Reason: c.Reason}.Change(ctx, &on)
}
