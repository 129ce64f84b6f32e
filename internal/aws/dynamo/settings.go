package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

const deniedPK, railsPK = "denied", "rails"

// railKey returns the key of a version of a rail's settings; 0 is the current one. Rails are numbered from 1.
func railKey(rail int) func(version uint64) primaryKey {
	return func(version uint64) primaryKey {
		if version == 0 {
			return pair(railsPK, fmt.Sprintf("%02d", rail))
		}
		return pair(railsPK, fmt.Sprintf("version#%02d#%020d", rail, version))
	}
}

type settingsItem struct {
	Version   uint64            `dynamodbav:"version"`
	Needs     uint64            `dynamodbav:"needs"`
	Confirmed string            `dynamodbav:"confirmed,omitempty"` // the table's name
	At        string            `dynamodbav:"created_at"`
	Who       string            `dynamodbav:"who"`
	Why       string            `dynamodbav:"reason"`
	Values    map[string]string `dynamodbav:"values"`

	// All but the last never change.
	Asset    string `dynamodbav:"asset"`
	Symbol   string `dynamodbav:"token_symbol"`
	Decimals int    `dynamodbav:"token_decimals,omitempty"`
	Added    string `dynamodbav:"added_at,omitempty"`
	Closed   string `dynamodbav:"closed_at,omitempty"`
}

// decodeSettings returns a version of settings, or an error of settings with the version's number alone.
func decodeSettings(table string, item attributes) (v settings.Settings, err error) {
	var it settingsItem
	r := read(item, &it)
	stamp := settings.Stamp{Version: it.Version, Needs: it.Needs, Confirmed: it.Confirmed == table, Who: it.Who, Why: it.Why,
		At: r.instant("created_at", it.At)}
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

// setSettings stores v as the next version of a rail, as the current one and in the history, whose oldest it removes.
func setSettings(ctx context.Context, table table, key func(uint64) primaryKey, v settings.Settings, added, closed time.Time) error {
	if err := settings.Payments.Validate(v); err != nil {
		return err
	}
	it := settingsItem{Version: v.Version + 1, Needs: v.Needs, At: instant(v.At), Who: v.Who, Why: v.Why, Values: settings.Payments.Encode(v),
		Asset: v.Coin().String(), Symbol: v.Token.Symbol, Decimals: v.Token.Decimals, Added: instant(added), Closed: instant(closed)}
	if v.Confirmed {
		it.Confirmed = table.name
	}
	under := func(k primaryKey) attributes {
		item := encode(it)
		maps.Copy(item, k)
		return item
	}
	when, version := "version = :version", number(v.Version)
	if v.Version == 0 {
		when, version = "attribute_not_exists(version) OR NOT attribute_type(version, :version)", text("N")
	}
	writes := []write{table.put(under(key(0)), when, attributes{":version": version}, is(store.ErrChanged)),
		table.put(under(key(it.Version)), "", nil, nil)}
	if it.Version > settings.Kept {
		writes = append(writes, table.without(change{key: key(it.Version - settings.Kept)}, nil))
	}
	return table.transact(ctx, "storing settings", writes...)
}

// SetSettings implements store.Settings. The number of a new rail is the next one, on the condition that it is free: so
// of two rails that are added at once one is refused, and reads the other when it is repeated.
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
	return setSettings(ctx, s.table, railKey(i+1), v, rails[i].Added, rails[i].ClosedBy(v))
}

func (s *Payments) SettingsHistory(ctx context.Context, c token.Coin) ([]settings.Settings, error) {
	rails, err := s.rails(ctx)
	i := slices.IndexFunc(rails, func(r store.Rail) bool { return r.Coin == c })
	if err != nil || i < 0 {
		return nil, err
	}
	var keys []primaryKey
	for newest, n := rails[i].Settings.Version, rails[i].Settings.Version; n > 0 && newest-n < settings.Kept; n-- {
		keys = append(keys, railKey(i+1)(n))
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
		added, closed := r.instant("added_at", it.Added), r.instant("closed_at", it.Closed)
		r.errs = nil // of the settings
		r.require("asset", ok)
		rail := store.Rail{Coin: coin, Token: token.Token{Contract: coin.Contract, Symbol: it.Symbol, Decimals: it.Decimals},
			Added: added, ClosedAt: closed}
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
		To     string `dynamodbav:"sk"`
		Reason string `dynamodbav:"reason"`
		At     string `dynamodbav:"created_at"`
	}
	r := read(item, &it)
	return decoded(r, store.Denial{To: r.address("sk", it.To), Reason: it.Reason, At: r.instant("created_at", it.At)}, "a denial")
}

func (s *Payments) Deny(ctx context.Context, d store.Denial) error {
	others := 0
	for item, err := range s.partition(ctx, "counting the deny list", deniedPK, "", "") {
		if err != nil {
			return err
		}
		if to, _ := item[attrSK].(*types.AttributeValueMemberS); to != nil && to.Value != d.To.String() {
			others++
		}
	}
	if err := store.FitsDenials(d, others); err != nil {
		return err
	}
	item := denialKey(d.To)
	item["reason"], item[attrCreatedAt] = text(d.Reason), text(instant(d.At))
	return outcome(s.replace(ctx, item, "", nil), nil, "denying "+d.To.String())
}

func (s *Payments) Allow(ctx context.Context, to token.Address) error {
	return outcome(s.remove(ctx, change{key: denialKey(to)}), nil, "allowing "+to.String())
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
