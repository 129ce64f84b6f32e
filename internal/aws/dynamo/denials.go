package dynamo

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// deniedPK is the partition of the operator's deny list, which one query reads.
const deniedPK = "denied"

// errNobody reports a denial of the zero address or a precompiled contract, under which the
// settings and the coin are.
var errNobody = errors.New("nobody can pay the zero address or a precompiled contract")

func denialKey(to token.Address) primaryKey { return pair(deniedPK, to.String()) }

// Deny implements store.Denials.
func (s *Payments) Deny(ctx context.Context, d store.Denial) error {
	if d.To.IsZero() || d.To.IsPrecompile() {
		return errNobody
	}
	others := 0
	for item, err := range s.partition(ctx, "reading the deny list", deniedPK, "", "") {
		if err != nil {
			return err
		}
		to, _ := item[attrSK].(*types.AttributeValueMemberS) // settings and the coin are no denials
		if to != nil && to.Value != d.To.String() && to.Value != (token.Address{}).String() && to.Value != coinAddress.String() {
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

// Allow implements store.Denials.
func (s *Payments) Allow(ctx context.Context, to token.Address) error {
	if to.IsZero() || to.IsPrecompile() {
		return errNobody
	}
	return outcome(s.remove(ctx, change{key: denialKey(to)}), nil, "allowing "+to.String())
}

// Rules implements store.Settings with one strongly consistent query. A denial or a coin
// that does not decode is an error: a payment could go to its recipient.
func (s *Payments) Rules(ctx context.Context) (store.Rules, error) {
	rules := store.Rules{Unusable: settings.ErrMissing}
	for item, err := range s.partition(ctx, "reading the deny list", deniedPK, "", "") {
		if err != nil {
			return store.Rules{}, err
		}
		var it struct {
			To     string `dynamodbav:"sk"`
			Reason string `dynamodbav:"reason"`
			At     string `dynamodbav:"created_at"`

			ChainID uint64 `dynamodbav:"chain_id"` // of the coin alone, as is the next
			Token   string `dynamodbav:"token_contract"`
		}
		r := read(item, &it)
		if it.To == (token.Address{}).String() {
			rules.Settings, rules.Unusable = decodeSettings(s.name, settings.Payments, item)
			continue
		}
		if it.To == coinAddress.String() && it.ChainID != 0 {
			if rules.Coin, err = decoded(r, store.Coin{ChainID: it.ChainID, Token: r.address("token_contract", it.Token)}, "the coin"); err != nil {
				return store.Rules{}, err
			}
			continue
		}
		d, err := decoded(r, store.Denial{To: r.address("sk", it.To), Reason: it.Reason, At: r.instant("created_at", it.At)}, "a denial")
		if err != nil {
			return store.Rules{}, err
		}
		rules.Denied = append(rules.Denied, d)
	}
	slices.SortFunc(rules.Denied, func(a, b store.Denial) int { return bytes.Compare(a.To[:], b.To[:]) })
	return rules, nil
}
