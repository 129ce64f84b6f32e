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

// spendKept is the time from a day's first charge to the removal of its item:
// every clock has left the day by then, and an operator had time to look.
const spendKept = 72 * time.Hour

// Charge implements store.DailyLimits with one conditional update of one item. The item holds the sums of the merchant
// and of each of its keys for a day, so that a charge counts under both limits or under neither. The first charge makes
// it. It keeps the sum, so that a limit changed during the day counts at once. A set names the keys that it counts, and
// bounds them. When the SDK repeats the update after a lost answer the day may be charged twice, but never missed. A
// limit above 10^38-1 counts as 10^38-1.
func (s *Payments) Charge(ctx context.Context, c store.Charge) error {
	if err := fit(c); err != nil {
		return err
	}
	set := []string{"#ttl = if_not_exists(#ttl, :expiry)"}
	var conditions []string
	names := map[string]string{}
	values := attributes{":zero": number(0), ":expiry": number(uint64(c.At.Add(spendKept).Unix()))}
	add := func(i int, kind, name, amount string) {
		a, room := fmt.Sprint("#", kind, i), fmt.Sprint(":", kind, i)
		names[a] = name
		set = append(set, fmt.Sprintf("%s = if_not_exists(%[1]s, :zero) + %s", a, amount))
		conditions = append(conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %[1]s <= %s)", a, room))
	}
	key := ""
	for i, l := range c.Limits {
		if l.OfKey() {
			key = l.Key
		}
		if !l.Amount.IsZero() {
			most := wallet.Spendable(l.Amount)
			if most.Less(c.Amount) {
				return store.ErrDailyLimit
			}
			add(i, "spent", spentAttr(l.Key), ":amount")
			values[":amount"], values[fmt.Sprint(":spent", i)] = units(c.Amount), units(most.Sub(c.Amount))
		}
		if l.Count > 0 {
			if l.Count < c.Count {
				return store.ErrDailyLimit
			}
			add(i, "count", countAttr(l.Key), ":count")
			values[":count"], values[fmt.Sprint(":count", i)] = number(c.Count), number(l.Count-c.Count)
		}
	}
	do := "SET " + strings.Join(set, ", ")
	if key != "" {
		do += " ADD #keys :keys"
		values[":keys"], values[":key"], values[":most"] = textSet(key), text(key), number(store.MaxDayKeys)
		conditions = append(conditions, "(attribute_not_exists(#keys) OR size(#keys) < :most OR contains(#keys, :key))")
	}
	_, err := s.apply(ctx, change{key: spendKey(c.Merchant, c.Mode, c.At), do: do,
		when: strings.Join(conditions, " AND "), names: names, values: values})
	if day, ok := refused(err); ok {
		there, _ := day["keys"].(*types.AttributeValueMemberSS)
		if key != "" && there != nil && len(there.Value) >= store.MaxDayKeys && !slices.Contains(there.Value, key) {
			return store.ErrDayKeys
		}
	}
	return outcome(err, store.ErrDailyLimit, "charging the day of "+c.Merchant)
}

// Refund implements store.DailyLimits. The SDK never repeats it: that would give back twice after a lost answer.
func (s *Payments) Refund(ctx context.Context, c store.Charge) error {
	if err := fit(c); err != nil {
		return err
	}
	var set, conditions []string
	names, values := map[string]string{}, attributes{}
	take := func(a, name, amount string) {
		names[a] = name
		set = append(set, fmt.Sprintf("%s = %[1]s - %s", a, amount))
		conditions = append(conditions, fmt.Sprintf("%s >= %s", a, amount))
	}
	for i, l := range c.Limits {
		if !l.Amount.IsZero() {
			if c.Amount != wallet.Spendable(c.Amount) {
				return nil // no such charge was ever taken
			}
			take(fmt.Sprint("#spent", i), spentAttr(l.Key), ":amount")
			values[":amount"] = units(c.Amount)
		}
		if l.Count > 0 {
			take(fmt.Sprint("#count", i), countAttr(l.Key), ":count")
			values[":count"] = number(c.Count)
		}
	}
	return s.make(ctx, change{key: spendKey(c.Merchant, c.Mode, c.At), do: "SET " + strings.Join(set, ", "),
		when: strings.Join(conditions, " AND "), names: names, values: values,
	}, nil, "refunding the day of "+c.Merchant, once) // a charge of another day, or none, stays
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
