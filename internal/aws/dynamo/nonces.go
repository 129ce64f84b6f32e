package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Reserve implements store.Nonces with one update of one item, never in a transaction: a transaction makes every other
// writer of a busy item fail. The right-hand sides of an update read the item before it, so the reservation gets the
// nonce before the increment. An update that the SDK repeats finds its own reservation and returns it.
func (s *Payments) Reserve(ctx context.Context, n wallet.Need) (wallet.Wallet, error) {
	if n.Amount != wallet.Spendable(n.Amount) || n.Gas != wallet.Spendable(n.Gas) {
		// No stored wallet has so much, and no expression can hold the number.
		w, err := s.Wallet(ctx, n.Wallet)
		return unreserved(n, w, err)
	}
	c := change{
		key: keyOf(n.Wallet),
		do: "SET reservations.#id = next_nonce, reserved_at.#id = :now, reserved_for.#id = :for, next_nonce = next_nonce + :one, " +
			"token_available = token_available - :amount, gas_available = gas_available - :gas",
		when: "attribute_not_exists(reservations.#id) AND next_nonce < nonce_ceiling AND " +
			"token_available >= :amount AND gas_available >= :gas AND attribute_not_exists(paused) AND size(reservations) < :most",
		names: map[string]string{"#id": string(n.Payment)},
		values: args{":now": n.At, ":for": n.For, ":one": 1, ":amount": units(n.Amount), ":gas": units(n.Gas),
			":most": wallet.MaxInFlight},
		returns: types.ReturnValueAllNew,
	}
	if n.Owner != wallet.Anyone {
		c.still = args{attrAssigned: orNone(n.Owner)}
	}
	if n.MerchantCap > 0 {
		c.do += ", in_flight.#m = if_not_exists(in_flight.#m, :zero) + :one"
		c.when += " AND (in_flight.#m < :cap OR attribute_not_exists(in_flight.#m) AND size(in_flight) < :most)"
		c.names["#m"], c.values[":zero"], c.values[":cap"] = n.Merchant, 0, n.MerchantCap
	}
	item, err := s.apply(ctx, c)
	if old, ok := refused(err); ok {
		if old == nil {
			return wallet.Wallet{}, wallet.ErrUnknown
		}
		w, err := decodeWallet(n.Wallet)(old)
		return unreserved(n, w, err)
	}
	if err != nil {
		return wallet.Wallet{}, fmt.Errorf("reserving a nonce of %s for %s: %w", n.Wallet.Address, n.Payment, err)
	}
	return decodeWallet(n.Wallet)(item)
}

// unreserved answers a need whose condition failed, by w, read with err: an earlier reservation, or the refusal.
func unreserved(n wallet.Need, w wallet.Wallet, err error) (wallet.Wallet, error) {
	if err != nil {
		return wallet.Wallet{}, err
	}
	if _, held := w.Holds(n.Payment, n.For); held {
		return w, nil
	}
	if refusal := w.Refusal(n); refusal != nil {
		return w, refusal
	}
	return wallet.Wallet{}, fmt.Errorf("reserving a nonce of %s for %s: %w", n.Wallet.Address, n.Payment, errMissing)
}

// Return implements store.Nonces. A caller that repeats it after a lost answer gets ErrChanged.
func (s *Payments) Return(ctx context.Context, n wallet.Need, nonce uint64) error {
	c := change{
		still:  args{"next_nonce": nonce + 1, "paused": nil},
		do:     "SET next_nonce = :nonce, token_available = token_available + :amount, gas_available = gas_available + :gas",
		when:   "reservations.#id = :nonce AND reserved_at.#id = :at",
		names:  map[string]string{"#id": string(n.Payment)},
		values: args{":nonce": nonce, ":at": n.At, ":one": 1, ":amount": units(n.Amount), ":gas": units(n.Gas)},
	}
	if n.MerchantCap > 0 {
		c.do, c.names["#m"] = c.do+", in_flight.#m = if_not_exists(in_flight.#m, :one) - :one", n.Merchant
	}
	c.do += " REMOVE reservations.#id, reserved_at.#id, reserved_for.#id ADD returned :one"
	return s.change(ctx, n.Wallet, "returning a nonce of", c)
}

func (s *Payments) Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error {
	return s.change(ctx, id, "orphaning a nonce of", change{
		do: "SET reserved_at.#id = :never", names: map[string]string{"#id": string(holder)},
		when: "reservations.#id = :nonce", values: args{":nonce": nonce, ":never": time.Time{}},
	})
}

func (s *Payments) Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error {
	return s.make(ctx, change{
		key: keyOf(tx.ID), names: map[string]string{"#id": string(id)},
		do:   "REMOVE reservations.#id, reserved_at.#id, reserved_for.#id",
		when: "reservations.#id = :nonce", values: args{":nonce": tx.Nonce},
	}, nil, fmt.Sprintf("releasing %s of %s", placeOf(tx.ID, tx.Nonce), id))
}

func (s *Payments) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return unlessChanged(s.change(ctx, id, "raising the ceiling of", change{set: args{"nonce_ceiling": ceiling},
		when: "nonce_ceiling < :ceiling", values: args{":ceiling": ceiling}}))
}

// LowerCeiling implements store.Nonces. An expression has no maximum, so that the two are
// tried in turn: a nonce that is returned in between leaves the ceiling to the next call.
func (s *Payments) LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	c := change{do: "SET nonce_ceiling = :ceiling", when: "nonce_ceiling > :ceiling AND next_nonce <= :ceiling",
		values: args{":ceiling": ceiling}}
	err := s.change(ctx, id, "lowering the ceiling of", c)
	if errors.Is(err, store.ErrChanged) {
		c.do, c.when = "SET nonce_ceiling = next_nonce", "next_nonce BETWEEN :ceiling AND nonce_ceiling"
		err = s.change(ctx, id, "lowering the ceiling of", c)
	}
	return unlessChanged(err)
}
