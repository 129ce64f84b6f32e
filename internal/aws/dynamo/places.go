package dynamo

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// Take implements store.Places. The places of a merchant are a set of strings in one item,
// each with the moment of its end in front. One that has ended is removed when there is no
// room, so that a place costs one write to take and one to leave.
func (s *Payments) Take(ctx context.Context, p store.Place, now time.Time, most int) error {
	take := change{
		fits: store.Within("places", most, store.MaxPlaces), key: placesKey(p), do: "ADD held :place",
		set:  args{attrTTL: now.Add(placesKept).Unix()},
		when: "attribute_not_exists(held) OR size(held) < :most OR contains(held, :name)",
		values: args{
			":place": textSet(placeName(p)), ":name": placeName(p), ":most": max(0, most),
		},
	}
	_, err := s.apply(ctx, take)
	item, full := refused(err)
	held, _ := item["held"].(*types.AttributeValueMemberSS)
	if !full || held == nil {
		return outcome(err, is(store.ErrFull), "taking a place of "+p.Merchant)
	}
	var ended []string
	for _, name := range held.Value {
		if name < instant(now) {
			ended = append(ended, name)
		}
	}
	if len(ended) == 0 {
		return store.ErrFull
	}
	if err := s.drop(ctx, p, ended...); err != nil {
		return err
	}
	return s.make(ctx, take, is(store.ErrFull), "taking a place of "+p.Merchant)
}

func (s *Payments) Leave(ctx context.Context, p store.Place) error {
	return s.drop(ctx, p, placeName(p))
}

func (s *Payments) drop(ctx context.Context, of store.Place, names ...string) error {
	return s.make(ctx, change{key: placesKey(of), do: "DELETE held :places", values: args{":places": textSet(names...)}},
		nil, "leaving places of "+of.Merchant)
}

func placesKey(p store.Place) primaryKey { return pair("places#"+p.Merchant, "places") }
func placeName(p store.Place) string     { return instant(p.Until) + "#" + p.ID }
