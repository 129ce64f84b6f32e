package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Charge implements store.DailyLimits with one conditional update of one item. The item holds the sums of the merchant
// and of each of its keys for a day, so that a charge counts under both limits or under neither. The first charge makes
// it. It keeps the sum, so that a limit changed during the day counts at once. A set names the keys that it counts, and
// bounds them. When the SDK repeats the update after a lost answer the day may be charged twice, but never missed. A
// limit above 10^38-1 counts as 10^38-1.
func (s *Payments) Charge(ctx context.Context, c store.Charge) error {
	if err := fit(c); err != nil {
		return err
	}
	set, conditions := []string{"#ttl = if_not_exists(#ttl, :expiry)"}, []string{}
	day := change{key: spendKey(c.Merchant, c.Mode, c.At), names: map[string]string{},
		values: args{":zero": 0, ":expiry": c.At.Add(spendKept).Unix()}}
	for i, sum := range sums(c) {
		if !sum.fits {
			return store.ErrDailyLimit
		}
		day.names[fmt.Sprint("#sum", i)], day.values[fmt.Sprint(":charge", i)] = sum.name, sum.charge
		day.values[fmt.Sprint(":room", i)] = sum.room
		set = append(set, fmt.Sprintf("#sum%d = if_not_exists(#sum%[1]d, :zero) + :charge%[1]d", i))
		conditions = append(conditions, fmt.Sprintf("(attribute_not_exists(#sum%d) OR #sum%[1]d <= :room%[1]d)", i))
	}
	key := ""
	for _, l := range c.Limits {
		if l.OfKey() {
			key = l.Key
		}
	}
	day.do = "SET " + strings.Join(set, ", ")
	if key != "" {
		day.do += " ADD #keys :keys"
		day.values[":keys"], day.values[":key"], day.values[":most"] = textSet(key), key, store.MaxDayKeys
		conditions = append(conditions, "(attribute_not_exists(#keys) OR size(#keys) < :most OR contains(#keys, :key))")
	}
	day.when = strings.Join(conditions, " AND ")
	return s.make(ctx, day, func(stored attributes) error {
		there, _ := stored["keys"].(*types.AttributeValueMemberSS)
		if key != "" && there != nil && len(there.Value) >= store.MaxDayKeys && !slices.Contains(there.Value, key) {
			return store.ErrDayKeys
		}
		return store.ErrDailyLimit
	}, "charging the day of "+c.Merchant)
}

// Refund implements store.DailyLimits. The SDK never repeats it: that would give back twice after a lost answer.
func (s *Payments) Refund(ctx context.Context, c store.Charge) error {
	if err := fit(c); err != nil {
		return err
	}
	var set, conditions []string
	day := change{key: spendKey(c.Merchant, c.Mode, c.At), names: map[string]string{}, values: args{}}
	for i, sum := range sums(c) {
		if sum.charge == nil {
			return nil // no such charge was ever taken
		}
		day.names[fmt.Sprint("#sum", i)], day.values[fmt.Sprint(":charge", i)] = sum.name, sum.charge
		set = append(set, fmt.Sprintf("#sum%d = #sum%[1]d - :charge%[1]d", i))
		conditions = append(conditions, fmt.Sprintf("#sum%d >= :charge%[1]d", i))
	}
	day.do, day.when = "SET "+strings.Join(set, ", "), strings.Join(conditions, " AND ")
	return s.make(ctx, day, nil, "refunding the day of "+c.Merchant, once) // a charge of another day, or none, stays
}

// A sum is the attribute of a day's item that counts under one limit.
type sum struct {
	name         string
	charge, room any  // nil: more than a number holds; the most that the sum may be before the charge
	fits         bool // the charge alone is within the limit
}

func sums(c store.Charge) (all []sum) {
	for _, l := range c.Limits {
		if most := wallet.Spendable(l.Amount); !most.IsZero() {
			of := sum{spentAttr(l.Key), nil, units(most.Sub(c.Amount)), !most.Less(c.Amount)}
			if c.Amount == wallet.Spendable(c.Amount) {
				of.charge = units(c.Amount)
			}
			all = append(all, of)
		}
		if l.Count > 0 {
			all = append(all, sum{countAttr(l.Key), c.Count, l.Count - c.Count, l.Count >= c.Count})
		}
	}
	return all
}

func (s *Payments) Charged(ctx context.Context, merchant, mode, key string, at time.Time) (token.Amount, uint64, error) {
	day, err := get(ctx, s.table, spendKey(merchant, mode, at), "the day of "+merchant, nil,
		func(item attributes) (attributes, error) { return item, nil })
	r := &reader{}
	sum := func(name string) string {
		n, _ := day[name].(*types.AttributeValueMemberN)
		if n == nil {
			return "0"
		}
		return n.Value
	}
	amount := r.amount("spent", sum(spentAttr(key)))
	count := parsed(r, "count", sum(countAttr(key)), func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	return amount, count, errors.Join(err, errors.Join(r.errs...))
}

func spentAttr(key string) string { return strings.TrimSuffix("spent#"+key, "#") }
func countAttr(key string) string { return strings.TrimSuffix("count#"+key, "#") }

func fit(c store.Charge) error { return store.Within("limits", len(c.Limits), store.MaxLimits) }
