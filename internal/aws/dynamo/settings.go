package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

const deniedPK, railsPK = "denied", "rails"

// railKey returns the key of a version of the settings of rails[i]; 0 is the current one.
func railKey(i int, version uint64) primaryKey {
	if version == 0 {
		return pair(railsPK, fmt.Sprintf("%02d", i+1))
	}
	return pair(railsPK, fmt.Sprintf("version#%02d#%020d", i+1, version))
}

type settingsItem struct {
	Version   uint64            `dynamodbav:"version"`
	Needs     uint64            `dynamodbav:"needs"`
	Confirmed string            `dynamodbav:"confirmed,omitempty"` // the table's name
	At        time.Time         `dynamodbav:"created_at"`
	Who       string            `dynamodbav:"who"`
	Why       string            `dynamodbav:"reason"`
	Values    map[string]string `dynamodbav:"values"`

	// All but the last never change.
	Asset    string    `dynamodbav:"asset"`
	Symbol   string    `dynamodbav:"token_symbol"`
	Decimals int       `dynamodbav:"token_decimals,omitempty"`
	Added    time.Time `dynamodbav:"added_at,omitempty"`
	Closed   time.Time `dynamodbav:"closed_at,omitempty"`
}

// decodeSettings returns a version of settings, or an error of settings with the version's number alone.
func decodeSettings(table string, item attributes) (v settings.Settings, err error) {
	var it settingsItem
	r := read(item, &it)
	stamp := settings.Stamp{Version: it.Version, Needs: it.Needs, Confirmed: it.Confirmed == table, At: it.At,
		Who: it.Who, Why: it.Why}
	if v, err = decoded(r, v, "the settings"); err != nil && it.Needs <= settings.Code {
		err = fmt.Errorf("%w: %w", settings.ErrDamaged, err)
	} else {
		v, err = settings.Payments.Decode(stamp, it.Values)
	}
	if err != nil {
		v.Version = it.Version
	}
	return v, err
}

// SetSettings implements store.Settings with one transaction: the current version, and the same in the history, whose
// oldest it removes. The number of a new rail is the next one, on the condition that it is free: so of two rails that
// are added at once one is refused, and reads the other when it is repeated.
func (s *Payments) SetSettings(ctx context.Context, v settings.Settings) error {
	rails, err := s.rails(ctx)
	if err != nil {
		return err
	}
	c := v.Coin()
	i := slices.IndexFunc(rails, func(r store.Rail) bool { return r.Coin == c })
	switch {
	case i >= 0 && rails[i].Token != v.Token:
		return settings.ErrFixed
	case i < 0 && v.Version > 0:
		return store.ErrChanged
	case i < 0:
		if err := store.Within("rails", len(rails)+1, store.MaxRails); err != nil {
			return err
		}
		i, rails = len(rails), append(rails, store.Rail{Added: v.At})
	}
	if err := settings.Payments.Validate(v); err != nil {
		return err
	}
	it := settingsItem{Version: v.Version + 1, Needs: v.Needs, At: v.At, Who: v.Who, Why: v.Why, Values: settings.Payments.Encode(v),
		Asset: c.String(), Symbol: v.Token.Symbol, Decimals: v.Token.Decimals, Added: rails[i].Added,
		Closed: rails[i].ClosedBy(v)}
	if v.Confirmed {
		it.Confirmed = s.name
	}
	current, kept := change{item: encode(it), still: args{"version": v.Version}}, change{item: encode(it)}
	maps.Copy(current.item, railKey(i, 0))
	maps.Copy(kept.item, railKey(i, it.Version))
	if v.Version == 0 {
		current.still, current.when = nil, "attribute_not_exists(version) OR NOT attribute_type(version, :number)"
		current.values = args{":number": "N"}
	}
	writes := []write{{current, is(store.ErrChanged)}, {kept, nil}}
	if it.Version > settings.Kept {
		writes = append(writes, write{change{key: railKey(i, it.Version-settings.Kept), gone: true}, nil})
	}
	return s.transact(ctx, "storing settings", writes...)
}

func (s *Payments) SettingsHistory(ctx context.Context, c token.Coin) ([]settings.Settings, error) {
	rails, err := s.rails(ctx)
	i := slices.IndexFunc(rails, func(r store.Rail) bool { return r.Coin == c })
	if err != nil || i < 0 {
		return nil, err
	}
	var keys []primaryKey
	for newest, n := rails[i].Settings.Version, rails[i].Settings.Version; n > 0 && newest-n < settings.Kept; n-- {
		keys = append(keys, railKey(i, n))
	}
	items, err := s.batch(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading the history of settings: %w", err)
	}
	var all []settings.Settings
	for _, item := range items {
		if v, err := decodeSettings(s.name, item); err == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b settings.Settings) int { return cmp.Compare(b.Version, a.Version) })
	return all, nil
}

// rails returns the rails in their order. One whose coin does not decode is an error: a payment of it could be made
// again on another rail.
func (s *Payments) rails(ctx context.Context) ([]store.Rail, error) {
	return all(s.partition(ctx, "reading the rails", railsPK, "00", "99"), func(item attributes) (store.Rail, error) {
		var it settingsItem
		r := read(item, &it)
		coin, ok := token.ParseCoin(it.Asset)
		r.errs = nil // decodeSettings reports faults of the settings
		r.require("asset", ok)
		rail := store.Rail{Coin: coin, Token: token.Token{Contract: coin.Contract, Symbol: it.Symbol, Decimals: it.Decimals},
			Added: it.Added, ClosedAt: it.Closed}
		rail.Settings, rail.Unusable = decodeSettings(s.name, item)
		if rail.Unusable == nil && (rail.Settings.Coin() != coin || rail.Settings.Token != rail.Token) {
			rail.Settings, rail.Unusable = settings.Settings{Stamp: settings.Stamp{Version: it.Version}}, settings.ErrDamaged
		}
		return decoded(r, rail, "a rail")
	})
}

func denialKey(to token.Address) primaryKey { return pair(deniedPK, to.String()) }

func decodeDenial(item attributes) (store.Denial, error) {
	var it struct {
		To     string    `dynamodbav:"sk"`
		Reason string    `dynamodbav:"reason"`
		At     time.Time `dynamodbav:"created_at"`
	}
	r := read(item, &it)
	return decoded(r, store.Denial{To: r.address("sk", it.To), Reason: it.Reason, At: it.At}, "a denial")
}

func (s *Payments) Deny(ctx context.Context, d store.Denial) error {
	denied, err := all(s.partition(ctx, "counting the deny list", deniedPK, "", ""),
		func(item attributes) (string, error) { return textOf(item, attrSK), nil })
	others := slices.DeleteFunc(denied, func(to string) bool { return to == d.To.String() })
	if err := cmp.Or(err, store.FitsDenials(d, len(others))); err != nil {
		return err
	}
	item := denialKey(d.To)
	item["reason"], item[attrCreatedAt] = text(d.Reason), text(instant(d.At))
	return s.make(ctx, change{item: item}, nil, "denying "+d.To.String())
}

func (s *Payments) Allow(ctx context.Context, to token.Address) error {
	return s.make(ctx, change{key: denialKey(to), gone: true}, nil, "allowing "+to.String())
}

// Rules implements store.Settings with two strongly consistent queries at once. A denial that does not decode is an
// error: a payment could go to its recipient.
func (s *Payments) Rules(ctx context.Context) (rules store.Rules, err error) {
	var reads errgroup.Group
	reads.Go(func() (err error) {
		rules.Rails, err = s.rails(ctx)
		return err
	})
	reads.Go(func() (err error) {
		rules.Denied, err = all(s.partition(ctx, "reading the deny list", deniedPK, "", ""), decodeDenial)
		return err
	})
	if err := reads.Wait(); err != nil {
		return store.Rules{}, err
	}
	slices.SortFunc(rules.Denied, func(a, b store.Denial) int { return bytes.Compare(a.To[:], b.To[:]) })
	return rules, nil
}
