package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

func (s *Payments) Register(ctx context.Context, r wallet.Registration) error {
	item := walletListKey(r.ID)
	item[attrState], item["signer"], item["since"] = text(r.State), text(r.Key), text(instant(r.Since))
	item[attrToken] = text(r.Token.String())
	if r.Merchant != "" {
		item[attrAssigned] = text(r.Merchant)
	}
	return s.make(ctx, create(item, nil), func(stored attributes) error {
		if textOf(stored, attrToken) != r.Token.String() {
			return store.ErrOtherRail
		}
		return nil
	}, "registering "+r.Address.String())
}

func (s *Payments) SetState(ctx context.Context, id wallet.ID, from, to wallet.State, at time.Time) error {
	if from == to {
		from = "" // it keeps its time
	}
	return s.make(ctx, moving(id, from, to, at), unmoved(to), "changing the state of "+id.Address.String())
}

func moving(id wallet.ID, from, to wallet.State, at time.Time) change {
	c := change{key: walletListKey(id), still: args{attrState: from},
		set: args{attrState: to, "since": at}}
	switch to {
	case wallet.Active, wallet.Funding:
		c.still[attrAssigned] = nil
	case wallet.Assigned:
		c.when = "attribute_exists(" + attrAssigned + ")"
	}
	return c
}

// idle is a change of a wallet's record that has given out no nonce since w was read, is paused as it was, and has no
// reservation.
func idle(w wallet.Wallet, set args) change {
	return change{key: keyOf(w.ID), still: args{"next_nonce": w.NextNonce, "paused": orNone(w.Paused)},
		when: "size(reservations) = :none", values: args{":none": 0}, set: set}
}

// unmoved judges the registration that is not in the state from which it was to move.
func unmoved(to wallet.State) refusal {
	return func(stored attributes) error {
		switch textOf(stored, attrState) {
		case "":
			return wallet.ErrUnknown
		case string(to):
			return nil
		default:
			return store.ErrChanged
		}
	}
}

// Retire implements store.Wallets with one transaction. The registration's write, the first, decides.
func (s *Payments) Retire(ctx context.Context, w wallet.Wallet, at time.Time) error {
	return s.transact(ctx, "retiring "+w.Address.String(),
		write{moving(w.ID, wallet.Draining, wallet.Retired, at), unmoved(wallet.Retired)},
		write{idle(w, args{"paused": wallet.RetiredReason}), is(store.ErrChanged)})
}

// Assign implements store.Wallets with one transaction. The registration's write, the first, decides.
func (s *Payments) Assign(ctx context.Context, w wallet.Wallet, merchant string, at time.Time) error {
	from, state := wallet.Draining, wallet.Draining
	switch {
	case merchant != "":
		state = wallet.Assigned
	case w.Merchant == "":
		from = "" // it keeps its time
	}
	listed, record := moving(w.ID, from, state, at), idle(w, args{})
	listed.when = ""
	for _, c := range []change{listed, record} {
		c.still[attrAssigned], c.set[attrAssigned] = orNone(w.Merchant), orNone(merchant)
	}
	already := func(stored attributes) error {
		err := unmoved(state)(stored)
		if err == nil && textOf(stored, attrAssigned) != merchant {
			err = store.ErrChanged
		}
		return err
	}
	return s.transact(ctx, "assigning "+w.Address.String(), write{listed, already}, write{record, is(store.ErrChanged)})
}

// Open implements store.Wallets with one transaction: no run of check-receipts would find a wallet whose registration
// does not say that it has a record. This one, Assign's and Retire's are the only transactions in a wallet's life, so
// none stands in the way of reservations.
func (s *Payments) Open(ctx context.Context, w wallet.Wallet, of token.Address) error {
	c := change{
		key: walletListKey(w.ID), still: args{attrAssigned: orNone(w.Merchant)}, set: args{"opened": true},
		do: "SET #state = if_not_exists(#state, :draining), signer = if_not_exists(signer, :secret), " +
			attrToken + " = if_not_exists(" + attrToken + ", :token)",
		values: args{":draining": wallet.Draining, ":secret": wallet.InSecret, ":token": of.String()},
	}
	fits := store.Within("reservations", len(w.Reservations), wallet.MaxInFlight)
	return s.transact(ctx, "opening "+w.Address.String(),
		write{create(encodeWallet(w), fits), nil}, // it may have been opened before
		write{c, is(store.ErrChanged)})
}

func (s *Payments) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	return get(ctx, s.table, keyOf(id), id.Address.String(), wallet.ErrUnknown, decodeWallet(id))
}

// Wallets implements store.Wallets with one query, strongly consistent: a chain's rails share a partition, so that an
// address is registered there once. The address is in the key of each registration: the zero address stands for a key
// without one.
func (s *Payments) Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error) {
	pk := walletPartition(rail.ChainID)
	registry, err := all(s.partition(ctx, "reading the registry of "+pk, pk, "", ""), func(item attributes) (wallet.Registration, error) {
		var it struct {
			SK       string    `dynamodbav:"sk"`
			Token    string    `dynamodbav:"token_contract"`
			State    string    `dynamodbav:"state"`
			Signer   string    `dynamodbav:"signer"`
			Since    time.Time `dynamodbav:"since"`
			Opened   bool      `dynamodbav:"opened"`
			Merchant string    `dynamodbav:"assigned_to"`
		}
		r := read(item, &it)
		contract, err := token.ParseAddress(it.Token)
		r.note(attrToken, err)
		if err != nil {
			contract = rail.Contract
		}
		w := wallet.Registration{
			ID:    wallet.ID{ChainID: rail.ChainID, Address: r.address("sk", strings.TrimPrefix(it.SK, walletListPrefix))},
			Token: contract, State: wallet.State(it.State), Key: wallet.KeyRef(it.Signer), Since: it.Since,
			Opened: it.Opened, Merchant: it.Merchant,
		}
		r.require("state", slices.Contains(wallet.States(), w.State) && w.State.Fits(w.Merchant))
		r.require("signer", w.Key != "")
		if len(r.errs) > 0 {
			w = wallet.Registration{ID: w.ID, Token: contract, State: wallet.Damaged, Key: w.Key, Opened: true, Merchant: it.Merchant}
		}
		return w, nil
	})
	registry = slices.DeleteFunc(registry, func(r wallet.Registration) bool { return r.Token != rail.Contract })
	slices.SortFunc(registry, func(a, b wallet.Registration) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	return registry, err
}

// A comparison is a store.Comparison as it is stored, but for its final block.
type comparison struct {
	At       time.Time            `dynamodbav:"compared_at"`
	Final    chain.Block          `dynamodbav:"-"`
	Seen     time.Time            `dynamodbav:"final_seen,omitempty"`
	Silent   map[string]time.Time `dynamodbav:"silent,omitempty"`
	Revision uint64               `dynamodbav:"revision"`
	Ran      time.Time            `dynamodbav:"ran_at,omitempty"`
	Since    time.Time            `dynamodbav:"series_since,omitempty"`
	Abreast  time.Time            `dynamodbav:"abreast_at,omitempty"`
}

type comparisonItem struct {
	comparison
	Number uint64 `dynamodbav:"final_block,omitempty"`
	Hash   string `dynamodbav:"final_hash,omitempty"`
}

func (s *Payments) SetCompared(ctx context.Context, rail token.Coin, c store.Comparison) error {
	it := comparisonItem{comparison: comparison(c), Number: c.Final.Number}
	it.Revision, it.Silent = c.Revision+1, maps.Collect(maps.All(c.Silent))
	if !c.Final.Hash.IsZero() {
		it.Hash = c.Final.Hash.String()
	}
	item := encode(it)
	maps.Copy(item, comparedKey(rail, s.name))
	fits := store.Within("silent nodes", len(c.Silent), store.MaxNodes)
	return s.make(ctx, change{item: item, fits: fits, still: args{"revision": orNone(c.Revision)}},
		is(store.ErrChanged), "storing how "+rail.String()+" compares")
}

func (s *Payments) Compared(ctx context.Context, rail token.Coin) (store.Comparison, error) {
	name := "how " + rail.String() + " compares"
	return get(ctx, s.table, comparedKey(rail, s.name), name, nil, func(item attributes) (store.Comparison, error) {
		var it comparisonItem
		r := read(item, &it)
		it.Final = chain.Block{Number: it.Number, Hash: r.hash("final_hash", it.Hash)}
		if len(it.Silent) == 0 {
			it.Silent = nil
		}
		return decoded(r, store.Comparison(it.comparison), name)
	})
}

func (s *Payments) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (bool, error) {
	c := change{fits: store.FitsProgress(seen), set: args{"claimed_by": by, "claimed_until": until},
		when:   "(attribute_not_exists(claimed_until) OR claimed_until <= :now OR claimed_by = :by)",
		values: args{":by": by, ":now": now}}
	c.keep(seen)
	err := s.change(ctx, id, "claiming", c)
	return err == nil, unlessChanged(err)
}

// unlessChanged returns err, nil if it is store.ErrChanged: the wallet is as it is to be, or not the caller's.
func unlessChanged(err error) error {
	if errors.Is(err, store.ErrChanged) {
		return nil
	}
	return err
}

func (s *Payments) Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount,
	perMerchant map[string]uint64, seen *wallet.Progress) error {
	c := change{fits: cmp.Or(store.Within("merchants", len(perMerchant), wallet.MaxInFlight), store.FitsProgress(seen)),
		still: args{"next_nonce": w.NextNonce, "returned": orNone(w.Returned)},
		set:   args{"token_available": units(wallet.Spendable(balance)), "gas_available": units(wallet.Spendable(gas))}}
	if w.Damaged == "" {
		c.still["token_available"] = units(w.Balance)
	}
	c.keep(seen)
	if perMerchant != nil {
		c.set["in_flight"] = encodeValue(perMerchant)
	}
	return s.change(ctx, w.ID, "reconciling", c)
}

func (s *Payments) Advance(ctx context.Context, id wallet.ID, next, noopsBelow uint64) error {
	return unlessChanged(s.change(ctx, id, "advancing", change{when: "next_nonce <= :next", values: args{":next": next},
		set: args{"next_nonce": next, "noops_below": noopsBelow}}))
}

func (s *Payments) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return s.change(ctx, id, "pausing", change{set: args{"paused": cmp.Or(reason, wallet.Unexplained)}})
}

func (s *Payments) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	c := change{when: "paused IN (:from, :to)", values: args{":from": from, ":to": to},
		set: args{"paused": orNone(to)}}
	if from == "" || to == "" {
		c.when = "(" + c.when + " OR attribute_not_exists(paused))"
	}
	return s.change(ctx, id, "changing the pause of", c)
}

// change changes a stored wallet. It returns wallet.ErrUnknown if the wallet is not stored,
// and store.ErrChanged if the stored one does not meet the condition.
func (s *Payments) change(ctx context.Context, id wallet.ID, doing string, c change) error {
	c.key, c.when = keyOf(id), strings.TrimSuffix("attribute_exists(pk) AND "+c.when, " AND ")
	return s.make(ctx, c, unless(wallet.ErrUnknown, store.ErrChanged), doing+" "+id.Address.String())
}

// Spendable amounts of a walletItem are numbers, so that the update of a reservation can compare and subtract them.
type walletItem struct {
	PK string `dynamodbav:"pk"`
	SK string `dynamodbav:"sk"`
	noncesItem
	Returned     uint64                `dynamodbav:"returned,omitempty"`
	NoopsBelow   uint64                `dynamodbav:"noops_below,omitempty"`
	ReservedFor  map[string]string     `dynamodbav:"reserved_for"` // payment id → revision
	Token        attributevalue.Number `dynamodbav:"token_available"`
	Gas          attributevalue.Number `dynamodbav:"gas_available"` // wei
	Paused       string                `dynamodbav:"paused,omitempty"`
	ClaimedUntil time.Time             `dynamodbav:"claimed_until,omitempty"`
	InFlight     map[string]int64      `dynamodbav:"in_flight"` // merchant → nonces
	Merchant     string                `dynamodbav:"assigned_to,omitempty"`
}

// A noncesItem has the attributes without which a wallet is unreadable, however damaged the others are.
type noncesItem struct {
	Next         *uint64           `dynamodbav:"next_nonce"`
	Ceiling      *uint64           `dynamodbav:"nonce_ceiling"`
	Reservations map[string]uint64 `dynamodbav:"reservations"` // payment id → nonce
	ReservedAt   map[string]string `dynamodbav:"reserved_at"`  // payment id → time
}

// encodeWallet writes empty maps too: reservations set their elements, which DynamoDB does in existing maps only.
func encodeWallet(w wallet.Wallet) attributes {
	it := walletItem{
		PK: walletPK(w.ID), SK: "wallet", Returned: w.Returned, NoopsBelow: w.NoopsBelow,
		noncesItem:  noncesItem{&w.NextNonce, &w.Ceiling, map[string]uint64{}, map[string]string{}},
		ReservedFor: map[string]string{}, InFlight: map[string]int64{},
		Token: attributevalue.Number(wallet.Spendable(w.Balance).String()),
		Gas:   attributevalue.Number(wallet.Spendable(w.Gas).String()), Paused: w.Paused,
		ClaimedUntil: w.ClaimedUntil, Merchant: w.Merchant,
	}
	for id, reservation := range w.Reservations {
		it.Reservations[string(id)], it.ReservedAt[string(id)], it.ReservedFor[string(id)] = reservation.Nonce,
			instant(reservation.At), reservation.For
	}
	return encode(it)
}

// farAway is the end of a claim that cannot be read: no run believes one for so long.
var farAway = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// decodeWallet returns the decoder of the wallet id. Its error is store.ErrUnreadable.
func decodeWallet(id wallet.ID) func(attributes) (wallet.Wallet, error) {
	return func(item attributes) (wallet.Wallet, error) {
		var nonces noncesItem
		r := read(item, &nonces)
		r.require("next_nonce, nonce_ceiling or reservations", nonces.Next != nil && nonces.Ceiling != nil && nonces.Reservations != nil)
		if len(r.errs) > 0 {
			return readable(r, wallet.Wallet{}, id.Address.String())
		}
		var it walletItem
		r = read(item, &it)
		w := wallet.Wallet{
			ID: id, NextNonce: *nonces.Next, Ceiling: *nonces.Ceiling, Returned: it.Returned, NoopsBelow: it.NoopsBelow,
			Reservations: make(map[payment.ID]wallet.Reservation, len(nonces.Reservations)),
			Balance:      r.amount("token_available", string(it.Token)), Gas: r.amount("gas_available", string(it.Gas)),
			Paused: it.Paused, Merchant: it.Merchant, ClaimedUntil: it.ClaimedUntil,
			PerMerchant: make(map[string]uint64, len(it.InFlight)), Progress: progressOf(item),
		}
		for merchant, n := range it.InFlight {
			w.PerMerchant[merchant] = uint64(max(n, 0))
		}
		for holder, nonce := range nonces.Reservations {
			w.Reservations[payment.ID(holder)] = wallet.Reservation{Nonce: nonce,
				At: r.instant("reserved_at", nonces.ReservedAt[holder]), For: it.ReservedFor[holder]}
		}
		if err := errors.Join(r.errs...); err != nil {
			w.Damaged = err.Error()
			if item["claimed_until"] != nil && w.ClaimedUntil.IsZero() {
				w.ClaimedUntil = farAway
			}
			if item["paused"] != nil && w.Paused == "" {
				w.Paused = wallet.Wallet{Paused: "a reason that cannot be read"}.PausedFor(wallet.Suspicion) // it may have been that
			}
		}
		return w, nil
	}
}
