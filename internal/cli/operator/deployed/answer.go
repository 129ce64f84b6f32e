package deployed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Show writes v in JSON with --json, and without it text, or that there is none.
func (d *Deployment) Show(v any, text string) error {
	if d.JSON {
		enc := json.NewEncoder(Tame{d.Out})
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	_, err := io.WriteString(Tame{d.Out}, cmp.Or(strings.TrimRight(text, "\n"), "none")+"\n")
	return err
}

// Coins writes an amount of the rail's token.
func (d *Deployment) Coins(amount token.Amount) string {
	return amount.Tokens(d.Asset.Decimals) + " " + d.Asset.Symbol
}

// Gas writes an amount of wei in the asset that pays gas: ether, or the rail's token.
func (d *Deployment) Gas(wei token.Amount) string {
	if d.Config.GasUnit > 0 {
		return wei.Tokens(18) + " " + d.Asset.Symbol
	}
	return wei.Tokens(18) + " ether"
}

// Holds writes the balances of an account.
func (d *Deployment) Holds(a chain.Account) string {
	if d.Config.GasUnit > 0 {
		return d.Coins(a.Balance)
	}
	return d.Coins(a.Balance) + ", " + d.Gas(a.Gas)
}

// Tame escapes controls but line ends and tabs, so that no text controls a terminal. Characters must come whole.
type Tame struct{ io.Writer }

func (w Tame) Write(text []byte) (int, error) {
	var safe []byte
	for i, c := range string(text) {
		if unicode.IsControl(c) && c != '\n' && c != '\t' && !bytes.HasPrefix(text[i:], []byte("\r\n")) {
			safe = fmt.Appendf(safe, `\u%04x`, c)
		} else {
			safe = utf8.AppendRune(safe, c)
		}
	}
	_, err := w.Writer.Write(safe)
	return len(text), err
}

// A Stamp is a time in an answer. The zero time is null in JSON and "-" in text.
type Stamp time.Time

func (s Stamp) String() string {
	if time.Time(s).IsZero() {
		return "-"
	}
	return time.Time(s).UTC().Format(time.RFC3339)
}

// MarshalJSON implements json.Marshaler.
func (s Stamp) MarshalJSON() ([]byte, error) {
	if time.Time(s).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(s.String())
}

// A Moment is a place in the chain: the number of a block, or a time. The zero Moment is block 0.
type Moment struct {
	Block uint64
	At    time.Time
}

// UnmarshalText reads a number or an RFC 3339 time.
func (m *Moment) UnmarshalText(text []byte) (err error) {
	if m.Block, err = strconv.ParseUint(string(text), 10, 64); err == nil {
		return nil
	}
	if m.At, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%q is not a block or a time; use a number, or a time such as 2026-01-31T18:30:00Z", text)
	}
	return nil
}

// First returns the first block of the Moment and later: by time, up to last+1. A time in the future is an error.
func (m Moment) First(ctx context.Context, nodes chain.Nodes, last uint64) (uint64, error) {
	switch {
	case m.At.IsZero():
		return m.Block, nil
	case m.At.After(time.Now()):
		return 0, fmt.Errorf("%s is in the future; check the time zone", m.At.Format(time.RFC3339))
	}
	return nodes.FirstSince(ctx, m.At, last)
}

// advice has the next step after errors of the domains, which know no command.
var advice = []struct {
	err  error
	step string
}{
	{store.ErrNotFound, "check the id, --merchant and --stack"},
	{store.ErrChanged, "run the command again"},
	{wallet.ErrUnknown, "one is made within a minute; remit wallet pause --all pauses it now"},
	{apikey.ErrNotFound, "find the key with remit keys list"},
	{apikey.ErrLimit, "end one with remit keys revoke"},
	{webhook.ErrNotFound, "check the ids of the merchant and the webhook"},
	{webhook.ErrDisabled, "have the merchant enable it"},
}

// Advised returns err with the next step, if a domain made it and no command has added one.
func Advised(err error) error {
	for _, a := range advice {
		if errors.Is(err, a.err) && strings.HasSuffix(err.Error(), a.err.Error()) {
			return fmt.Errorf("%w; %s", err, a.step)
		}
	}
	return err
}
