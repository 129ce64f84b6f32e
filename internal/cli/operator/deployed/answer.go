package deployed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// Show writes v in JSON with --json, and text without.
func (d *Deployment) Show(v any, text string) error {
	if d.JSON {
		enc := json.NewEncoder(Tame(d.Out))
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	_, err := io.WriteString(Tame(d.Out), strings.TrimRight(text, "\n")+"\n")
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

// Tame returns a writer that escapes control characters but line ends and tabs, as JSON does: a
// merchant's text must not control a terminal. Characters must come whole.
func Tame(out io.Writer) io.Writer { return tame{out} }

type tame struct{ io.Writer }

func (w tame) Write(text []byte) (int, error) {
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
