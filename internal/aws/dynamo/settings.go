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

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

const deniedPK = "denied"

// CoinPartition has the coin, which the first payment stores and nobody changes.
const CoinPartition = "coin"

var coinKey = pair(CoinPartition, "coin")

// settingsKey returns the key of a version of the settings of payments; 0 is the current one.
func settingsKey(version uint64) primaryKey {
	if version == 0 {
		return pair("settings", "current")
	}
	return pair("settings", fmt.Sprintf("%020d", version))
}

func keySettingsKey(version uint64) primaryKey {
	if version == 0 {
		return hashKey("settings")
	}
	return hashKey(fmt.Sprintf("settings#%020d", version))
}

type settingsItem struct {
	Version   uint64            `dynamodbav:"version"`
	Needs     uint64            `dynamodbav:"needs"`
	Confirmed string            `dynamodbav:"confirmed,omitempty"` // the table's name
	At        string            `dynamodbav:"created_at"`
	Who       string            `dynamodbav:"who"`
	Why       string            `dynamodbav:"reason"`
	Values    map[string]string `dynamodbav:"values"`
}

// decodeSettings returns a version of settings, or an error of settings with the version's number alone.
func decodeSettings[T any](table string, t settings.Table[T], item attributes) (v T, err error) {
	var it settingsItem
	r := read(item, &it)
	stamp := settings.Stamp{Version: it.Version, Needs: it.Needs, Confirmed: it.Confirmed == table, Who: it.Who, Why: it.Why,
		At: r.instant("created_at", it.At)}
	if v, err = decoded(r, v, "the settings"); err != nil && it.Needs <= settings.Code {
		err = fmt.Errorf("%w: %w", settings.ErrDamaged, err)
	} else {
		v, err = t.Decode(stamp, it.Values)
	}
	if err != nil {
		t.Stamp(&v).Version = it.Version
	}
	return v, err
}

// setSettings stores v as the next version, as the current one and in the history, whose oldest it removes.
func setSettings[T any](ctx context.Context, table table, t settings.Table[T], key func(uint64) primaryKey, v T) error {
	if err := t.Validate(v); err != nil {
		return err
	}
	stamp := *t.Stamp(&v)
	it := settingsItem{Version: stamp.Version + 1, Needs: stamp.Needs, At: instant(stamp.At), Who: stamp.Who, Why: stamp.Why,
		Values: t.Encode(v)}
	if stamp.Confirmed {
		it.Confirmed = table.name
	}
	under := func(k primaryKey) attributes {
		item := encode(it)
		maps.Copy(item, k)
		return item
	}
	when, version := "version = :version", number(stamp.Version)
	if stamp.Version == 0 {
		when, version = "attribute_not_exists(version) OR NOT attribute_type(version, :version)", text("N")
	}
	writes := []write{table.put(under(key(0)), when, attributes{":version": version}, is(store.ErrChanged)),
		table.put(under(key(it.Version)), "", nil, nil)}
	if it.Version > settings.Kept {
		writes = append(writes, table.without(change{key: key(it.Version - settings.Kept)}, nil))
	}
	return table.transact(ctx, "storing settings", writes...)
}

// settingsHistory returns the versions up to newest that are kept.
func settingsHistory[T any](ctx context.Context, table table, t settings.Table[T], key func(uint64) primaryKey, newest uint64) ([]T,
	error) {
	var keys []primaryKey
	for n := newest; n > 0 && newest-n < settings.Kept; n-- {
		keys = append(keys, key(n))
	}
	items, err := table.batch(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading the history of settings: %w", err)
	}
	var all []T
	for _, item := range items {
		if v, err := decodeSettings(table.name, t, item); err == nil {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(t.Stamp(&b).Version, t.Stamp(&a).Version) })
	return all, nil
}

func (s *Payments) SetSettings(ctx context.Context, v settings.Settings) error {
	return setSettings(ctx, s.table, settings.Payments, settingsKey, v)
}

func (s *Payments) SettingsHistory(ctx context.Context) ([]settings.Settings, error) {
	rules, err := s.Rules(ctx)
	if err != nil {
		return nil, err
	}
	return settingsHistory(ctx, s.table, settings.Payments, settingsKey, rules.Settings.Version)
}

func (s *APIKeys) KeySettings(ctx context.Context) (settings.Keys, error) {
	return get(ctx, s.table, keySettingsKey(0), "the settings of keys", settings.ErrMissing, func(item attributes) (settings.Keys, error) {
		return decodeSettings(s.name, settings.APIKeys, item)
	})
}

func (s *APIKeys) SetKeySettings(ctx context.Context, k settings.Keys) error {
	return setSettings(ctx, s.table, settings.APIKeys, keySettingsKey, k)
}

func (s *APIKeys) KeySettingsHistory(ctx context.Context) ([]settings.Keys, error) {
	current, err := s.KeySettings(ctx) // has its version at least, also if it cannot be obeyed
	if err != nil && !settings.Unusable(err) {
		return nil, err
	}
	return settingsHistory(ctx, s.table, settings.APIKeys, keySettingsKey, current.Version)
}

func (s *Payments) Bind(ctx context.Context, c store.Coin, at time.Time) error {
	item := maps.Clone(coinKey)
	item["chain_id"], item["token_contract"], item[attrCreatedAt] = number(c.ChainID), text(c.Token.String()), text(instant(at))
	err := s.replace(ctx, item, "attribute_not_exists(pk) OR chain_id = :chain AND token_contract = :token",
		attributes{":chain": item["chain_id"], ":token": item["token_contract"]})
	return outcome(err, store.ErrOtherCoin, "storing the coin")
}

func decodeCoin(item attributes) (store.Coin, error) {
	var it struct {
		ChainID uint64 `dynamodbav:"chain_id"`
		Token   string `dynamodbav:"token_contract"`
	}
	r := read(item, &it)
	r.require("chain_id", it.ChainID > 0)
	return decoded(r, store.Coin{ChainID: it.ChainID, Token: r.address("token_contract", it.Token)}, "the coin")
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

// Rules implements store.Settings with strongly consistent reads. A denial or a coin that
// does not decode is an error: a payment could go to its recipient.
func (s *Payments) Rules(ctx context.Context) (rules store.Rules, err error) {
	rules.Settings, rules.Unusable = get(ctx, s.table, settingsKey(0), "the settings of payments", settings.ErrMissing,
		func(item attributes) (settings.Settings, error) {
			return decodeSettings(s.name, settings.Payments, item)
		})
	if rules.Unusable != nil && !settings.Unusable(rules.Unusable) {
		return store.Rules{}, rules.Unusable
	}
	if rules.Coin, err = get(ctx, s.table, coinKey, "the coin", nil, decodeCoin); err != nil {
		return store.Rules{}, err
	}
	denied, err := all(s.partition(ctx, "reading the deny list", deniedPK, "", ""), decodeDenial)
	if err != nil {
		return store.Rules{}, err
	}
	slices.SortFunc(denied, func(a, b store.Denial) int { return bytes.Compare(a.To[:], b.To[:]) })
	rules.Denied = denied
	return rules, nil
}
