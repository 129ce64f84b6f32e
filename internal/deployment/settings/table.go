package settings

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Table describes every setting, in the order in which people read them.
type Table []row

type row struct {
	name, about string
	text        func(Settings) string
	parse       func(*Settings, string) error
	looser      func(from, to Settings) bool // to allows more than from
}

// A Setting is one setting with its value, as users read it.
type Setting struct{ Name, Value, About string }

// A Change is the difference of one setting between two versions.
type Change struct {
	Name, From, To string
	Loosens        bool // it allows requests that were refused before
}

// Payments describes Settings.
var Payments = Table{
	count("ChainId", "The chain's EIP-155 number. It never changes.", 1, math.MaxUint64,
		func(s *Settings) *uint64 { return &s.ChainID }, changed),
	field("TokenAddress", "The token's contract. It never changes.", func(s *Settings) *token.Address { return &s.Token.Contract },
		token.Address.String, token.ParseAddress, changed),
	text("TokenSymbol", "The token's symbol. It never changes.", 12, func(s *Settings) *string { return &s.Token.Symbol }),
	field("TokenDecimals", "The token's decimals. They never change.", func(s *Settings) *int { return &s.Token.Decimals }, strconv.Itoa,
		func(text string) (int, error) {
			n, err := between(text, 0, 36)
			return int(n), err
		}, changed),
	text("Network", "The chain's name, as merchants read it.", 40, func(s *Settings) *string { return &s.Network }),
	field("ConfirmationRule", "When a block is final: safe, finalized or a number of blocks. Empty: the chain's own, live finalized.",
		func(s *Settings) *string { return &s.Confirmation }, asIs, func(text string) (string, error) {
			if text == "" || text == "safe" || text == "finalized" {
				return text, nil
			}
			_, err := between(text, 0, 9999)
			return text, err
		}, func(_, to string) bool { return to != "finalized" }),
	field("Quorum", "Whose votes confirm a payment: strict counts all nodes, answering only those that answer. Empty: live strict.",
		func(s *Settings) *string { return &s.Quorum }, asIs, func(text string) (string, error) {
			if !slices.Contains([]string{"", "strict", "answering"}, text) {
				return "", fmt.Errorf("%q is not known; use strict or answering", text)
			}
			return text, nil
		}, func(from, to string) bool { return from == "strict" || to == "answering" }),
	field("BlockTime", "How long a fee quote is good for, and a round of settling waits, such as 2s. 0s: the chain's own.",
		func(s *Settings) *time.Duration { return &s.BlockTime }, time.Duration.String, func(text string) (time.Duration, error) {
			d, err := time.ParseDuration(text)
			if err == nil && (d < 0 || d > time.Minute) {
				err = fmt.Errorf("%q is out of range; use at most 1m", text)
			}
			return d, err
		}, func(_, _ time.Duration) bool { return false }),
	amount("TokenLow", "An alarm fires below it, in the token's smallest unit. 0: 100 tokens in live mode, else 5.",
		func(s *Settings) *token.Amount { return &s.TokenLow }, func(from, to token.Amount) bool { return to.Less(from) }),
	count("GasLowGwei", fmt.Sprintf("An alarm fires below it, in gwei of ether. 0: %d.", defaultGasLow),
		0, 1_000_000_000_000, func(s *Settings) *uint64 { return &s.GasLowGwei },
		func(from, to uint64) bool { return to < from }),
	flag("Closed", "Whether new payments are refused: true or false.", "true", "false", func(s *Settings) *bool { return &s.Closed }, true),
	amount("AmountMinimum", "The smallest payment, in the token's smallest unit.",
		func(s *Settings) *token.Amount { return &s.Minimum }, func(from, to token.Amount) bool { return to.Less(from) }),
	amount("AmountMaximum", "The largest payment, in the token's smallest unit; 0 is no limit.",
		func(s *Settings) *token.Amount { return &s.Maximum }, higher),
	amount("DailyLimit", "The total one merchant may pay in a UTC day, in the token's smallest unit; 0 is no limit.",
		func(s *Settings) *token.Amount { return &s.Daily }, higher),
	field("ApproveAbove", "Above it a payment is made from an approved proposal only, in the token's smallest unit. Empty: never.",
		func(s *Settings) *token.Amount { return &s.ApproveAbove }, unlessZero(token.Amount.String),
		func(text string) (a token.Amount, err error) {
			if text != "" {
				a, err = token.ParseAmount(text)
			}
			if text != "" && err == nil && a.IsZero() {
				err = errors.New("0 is not usable; use the largest amount that needs no approval, or an empty text for none")
			}
			return a, err
		}, higher),
	flag("RequireIdempotencyKey", "Refuse payments without an Idempotency-Key: true or false.", "true", "false",
		func(s *Settings) *bool { return &s.RequireKey }, true),
	address("SanctionsList", "A contract with isSanctioned(address): recipients on it are not paid. Empty asks none.",
		func(s *Settings) *token.Address { return &s.Sanctions }, func(from, _ token.Address) bool { return !from.IsZero() }),
	address("BatchContract", "The contract that pays batches (remit batch deploy prints it). Empty refuses batches.",
		func(s *Settings) *token.Address { return &s.BatchContract }, func(_, to token.Address) bool { return !to.IsZero() }),
	count("MaxFeeCapGwei", "The highest fee cap per gas, in gwei; 0 is the chain's own. Above it payments wait.",
		0, 1_000_000_000, func(s *Settings) *uint64 { return &s.FeeCapGwei }, unlessOwn),
	count("NonceWindow", "Payments of a wallet that may wait to be mined at once, at most 64; 0 is the chain's own number.",
		0, MaxWindow, func(s *Settings) *uint64 { return &s.NonceWindow }, unlessOwn),
	count("MerchantCap", "Percent of each wallet's NonceWindow that one merchant may use; 100 is no limit.",
		1, 100, func(s *Settings) *uint64 { return &s.MerchantCap }, func(from, to uint64) bool { return to > from }),
	flag("Memo", "Whether a payment's ID follows the transfer in its call data: on or off.", "off", "on",
		func(s *Settings) *bool { return &s.MemoOff }, false),
	field("RefillToken", "When the funding wallet refills others with tokens: LOW,AMOUNT,DAILY in the smallest unit. Empty: never.",
		func(s *Settings) *Refill { return &s.Refills.Token }, Refill.String, ParseRefill, refillsMore),
	field("RefillEther", "The same of ether, in wei.",
		func(s *Settings) *Refill { return &s.Refills.Ether }, Refill.String, ParseRefill, refillsMore),
}

// check returns why values that are each valid do not go together.
func check(s Settings) error {
	if s.Token.Contract.IsZero() {
		return errors.New("TokenAddress is the zero address; use the token's contract")
	}
	if !s.Maximum.IsZero() && s.Maximum.Less(s.Minimum) {
		return fmt.Errorf("AmountMaximum %s is below AmountMinimum %s; raise it", s.Maximum, s.Minimum)
	}
	return nil
}

// Text returns all settings of v.
func (t Table) Text(v Settings) (all []Setting) {
	for _, r := range t {
		all = append(all, Setting{r.name, r.text(v), r.about})
	}
	return all
}

// Set returns v with one setting changed. Its error explains why value is invalid.
func (t Table) Set(v Settings, name, value string) (Settings, error) {
	for _, r := range t {
		if r.name == name {
			was := v
			if err := r.parse(&v, value); err != nil {
				return was, fmt.Errorf("%s: %w", name, err)
			}
			return v, nil
		}
	}
	return v, fmt.Errorf("there is no setting %q; find its name with remit settings show", name)
}

// Diff returns the settings in which two versions differ.
func (t Table) Diff(from, to Settings) (all []Change) {
	for _, r := range t {
		if a, b := r.text(from), r.text(to); a != b {
			all = append(all, Change{r.name, a, b, r.looser(from, to)})
		}
	}
	return all
}

// Validate returns why v cannot be stored, nil if it can.
func (t Table) Validate(v Settings) error {
	if s := v.Stamp; len(s.Who) > maxText || len(s.Why) > maxText {
		return fmt.Errorf("the reason is too long; shorten it to %d bytes", maxText)
	}
	for _, r := range t {
		if _, err := t.Set(v, r.name, r.text(v)); err != nil {
			return err
		}
	}
	return check(v)
}

// Encode returns v's settings as a store keeps them: texts by name.
func (t Table) Encode(v Settings) map[string]string {
	texts := map[string]string{}
	for _, r := range t {
		texts[r.name] = r.text(v)
	}
	return texts
}

// Decode is the inverse of Encode. It returns ErrNewer or ErrDamaged unless every setting is there
// and valid: a lost setting is never taken for "no limit".
func (t Table) Decode(s Stamp, texts map[string]string) (v Settings, err error) {
	if s.Needs > Code {
		return v, fmt.Errorf("%w: version %d needs %d, this is %d", ErrNewer, s.Version, s.Needs, Code)
	}
	var errs []error
	for _, r := range t {
		text, there := texts[r.name]
		if !there {
			errs = append(errs, fmt.Errorf("%s is missing", r.name))
			continue
		}
		v, err = t.Set(v, r.name, text)
		errs = append(errs, err)
	}
	if len(texts) != len(t) {
		errs = append(errs, fmt.Errorf("there are %d settings, not %d", len(texts), len(t)))
	}
	if s.Version == 0 || s.Needs == 0 {
		errs = append(errs, errors.New("the version is missing"))
	}
	v.Stamp = s
	if err := errors.Join(append(errs, check(v))...); err != nil {
		return Settings{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return v, nil
}

// higher reports whether a limit was raised, or lifted, which 0 stands for.
func higher(from, to token.Amount) bool {
	return !from.IsZero() && (to.IsZero() || from.Less(to))
}

// unlessOwn reports whether a limit was raised. A change from or to the chain's own, 0, counts: it is not known here.
func unlessOwn(from, to uint64) bool { return to > from || to == 0 }

func refillsMore(from, to Refill) bool {
	return !to.Amount.IsZero() && (from.Low.Less(to.Low) || from.Amount.Less(to.Amount) || higher(from.Daily, to.Daily))
}

func field[V any](name, about string, at func(*Settings) *V, text func(V) string, parse func(string) (V, error),
	looser func(from, to V) bool) row {
	return row{
		name, about, func(v Settings) string { return text(*at(&v)) },
		func(v *Settings, text string) (err error) {
			*at(v), err = parse(text)
			return err
		},
		func(from, to Settings) bool { return looser(*at(&from), *at(&to)) },
	}
}

func amount(name, about string, at func(*Settings) *token.Amount, looser func(from, to token.Amount) bool) row {
	return field(name, about, at, token.Amount.String, token.ParseAmount, looser)
}

// text is a setting of 1 to so many letters, digits, points and hyphens.
func text(name, about string, most int, at func(*Settings) *string) row {
	return field(name, about, at, asIs, func(text string) (string, error) {
		if text == "" || len(text) > most || strings.ContainsFunc(text, func(r rune) bool {
			return r != '.' && r != '-' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
		}) {
			return "", fmt.Errorf("%q is not usable; use 1 to %d letters, digits, points and hyphens", text, most)
		}
		return text, nil
	}, changed)
}

func asIs(text string) string { return text }

// changed has any change of a setting count as one that allows more.
func changed[T any](_, _ T) bool { return true }

// unlessZero returns text, but with the empty text for zero.
func unlessZero[V interface{ IsZero() bool }](text func(V) string) func(V) string {
	return func(v V) string {
		if v.IsZero() {
			return ""
		}
		return text(v)
	}
}

// address is a setting of which the empty text is the zero address.
func address(name, about string, at func(*Settings) *token.Address, looser func(from, to token.Address) bool) row {
	return field(name, about, at, unlessZero(token.Address.String), func(text string) (token.Address, error) {
		if text == "" {
			return token.Address{}, nil
		}
		return token.ParseAddress(text)
	}, looser)
}

func count(name, about string, least, most uint64, at func(*Settings) *uint64, looser func(from, to uint64) bool) row {
	return field(name, about, at, func(n uint64) string { return strconv.FormatUint(n, 10) },
		func(text string) (uint64, error) { return between(text, least, most) }, looser)
}

func between(text string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is out of range; use a whole number from %d to %d", text, least, most)
	}
	return n, nil
}

// flag is a setting of two values. tight is the value of its field that allows less.
func flag(name, about, yes, no string, at func(*Settings) *bool, tight bool) row {
	return field(name, about, at, func(is bool) string { return map[bool]string{true: yes, false: no}[is] },
		func(text string) (bool, error) {
			if text != yes && text != no {
				return false, fmt.Errorf("%q is not known; use %s or %s", text, yes, no)
			}
			return text == yes, nil
		}, func(_, to bool) bool { return to != tight })
}
