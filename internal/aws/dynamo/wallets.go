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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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
	_, err := s.apply(ctx, create(item))
	if stored, taken := refused(err); taken {
		if of, _ := stored[attrToken].(*types.AttributeValueMemberS); of == nil || of.Value != r.Token.String() {
			return store.ErrOtherRail
		}
	}
	return outcome(err, nil, "registering "+r.Address.String())
}

func (s *Payments) SetState(ctx context.Context, id wallet.ID, from, to wallet.State, at time.Time) error {
	if from == to {
		from = "" // it keeps its time
	}
	_, err := s.apply(ctx, moving(id, from, to, at))
	if stored, failed := refused(err); failed {
		return unmoved(to)(stored)
	}
	return outcome(err, nil, "changing the state of "+id.Address.String())
}

func moving(id wallet.ID, from, to wallet.State, at time.Time) change {
	c := change{key: walletListKey(id), still: attributes{attrState: text(from)},
		set: attributes{attrState: text(to), "since": text(instant(at))}}
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
func idle(w wallet.Wallet, set attributes) change {
	return change{key: keyOf(w.ID), still: attributes{"next_nonce": number(w.NextNonce), "paused": textOrNone(w.Paused)},
		when: "size(reservations) = :none", values: attributes{":none": number(0)}, set: set}
}

// unmoved judges the registration that is not in the state from which it was to move.
func unmoved(to wallet.State) func(attributes) error {
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
		write{idle(w, attributes{"paused": text(wallet.RetiredReason)}), is(store.ErrChanged)})
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
	listed, record := moving(w.ID, from, state, at), idle(w, attributes{})
	listed.when = ""
	for _, c := range []change{listed, record} {
		c.still[attrAssigned], c.set[attrAssigned] = textOrNone(w.Merchant), textOrNone(merchant)
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
		fits: store.Within("reservations", len(w.Reservations), wallet.MaxInFlight), key: walletListKey(w.ID),
		still: attributes{attrAssigned: textOrNone(w.Merchant)}, set: attributes{"opened": boolean(true)},
		do: "SET #state = if_not_exists(#state, :draining), signer = if_not_exists(signer, :secret), " +
			attrToken + " = if_not_exists(" + attrToken + ", :token)",
		values: attributes{":draining": text(wallet.Draining), ":secret": text(wallet.InSecret), ":token": text(of.String())},
	}
	return s.transact(ctx, "opening "+w.Address.String(),
		write{create(encodeWallet(w)), nil}, // it may have been opened before
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
			SK       string `dynamodbav:"sk"`
			Token    string `dynamodbav:"token_contract"`
			State    string `dynamodbav:"state"`
			Signer   string `dynamodbav:"signer"`
			Since    string `dynamodbav:"since"`
			Opened   bool   `dynamodbav:"opened"`
			Merchant string `dynamodbav:"assigned_to"`
		}
		r := read(item, &it)
		contract, err := token.ParseAddress(it.Token)
		r.note(attrToken, err)
		if err != nil {
			contract = rail.Contract
		}
		w := wallet.Registration{
			ID:    wallet.ID{ChainID: rail.ChainID, Address: r.address("sk", strings.TrimPrefix(it.SK, walletListPrefix))},
			Token: contract, State: wallet.State(it.State), Key: wallet.KeyRef(it.Signer), Since: r.instant("since", it.Since), Opened: it.Opened,
			Merchant: it.Merchant,
		}
		r.require("state", slices.Contains(wallet.States(), w.State) && w.State.Fits(w.Merchant))
		r.require("signer", w.Key != "")
		if len(r.errs) > 0 {
			w = wallet.Registration{ID: w.ID, Token: contract, State: wallet.Damaged, Key: wallet.KeyRef(it.Signer), Opened: true}
		}
		return w, nil
	})
	registry = slices.DeleteFunc(registry, func(r wallet.Registration) bool { return r.Token != rail.Contract })
	slices.SortFunc(registry, func(a, b wallet.Registration) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	return registry, err
}

type comparisonItem struct {
	At       string `dynamodbav:"compared_at"`
	Number   uint64 `dynamodbav:"final_block,omitempty"`
	Hash     string `dynamodbav:"final_hash,omitempty"`
	Seen     string `dynamodbav:"final_seen,omitempty"`
	Revision uint64 `dynamodbav:"revision"`
	Ran      string `dynamodbav:"ran_at,omitempty"`
	Since    string `dynamodbav:"series_since,omitempty"`
	Abreast  string `dynamodbav:"abreast_at,omitempty"`

	Silent map[string]string `dynamodbav:"silent,omitempty"`
}

func (s *Payments) SetCompared(ctx context.Context, rail token.Coin, c store.Comparison) error {
	if err := store.Within("silent nodes", len(c.Silent), store.MaxNodes); err != nil {
		return err
	}
	it := comparisonItem{At: instant(c.At), Number: c.Final.Number, Seen: instant(c.Seen), Revision: c.Revision + 1,
		Silent: map[string]string{}, Ran: instant(c.Ran), Since: instant(c.Since), Abreast: instant(c.Abreast)}
	for node, since := range c.Silent {
		it.Silent[node] = instant(since)
	}
	if !c.Final.Hash.IsZero() {
		it.Hash = c.Final.Hash.String()
	}
	item := encode(it)
	maps.Copy(item, comparedKey(rail, s.name))
	return s.make(ctx, change{item: item, still: attributes{"revision": numberOrNone(c.Revision)}}, store.ErrChanged,
		"storing how "+rail.String()+" compares")
}

func (s *Payments) Compared(ctx context.Context, rail token.Coin) (store.Comparison, error) {
	name := "how " + rail.String() + " compares"
	return get(ctx, s.table, comparedKey(rail, s.name), name, nil, func(item attributes) (store.Comparison, error) {
		var it comparisonItem
		r := read(item, &it)
		final := chain.Block{Number: it.Number, Hash: r.hash("final_hash", it.Hash)}
		c := store.Comparison{At: r.instant("compared_at", it.At), Final: final, Seen: r.instant("final_seen", it.Seen), Revision: it.Revision,
			Ran: r.instant("ran_at", it.Ran), Since: r.instant("series_since", it.Since), Abreast: r.instant("abreast_at", it.Abreast)}
		for node, since := range it.Silent {
			if c.Silent == nil {
				c.Silent = map[string]time.Time{}
			}
			c.Silent[node] = r.instant("silent", since)
		}
		return decoded(r, c, name)
	})
}

func (s *Payments) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (bool, error) {
	c := change{fits: store.FitsProgress(seen), set: attributes{"claimed_by": text(by), "claimed_until": text(instant(until))},
		when:   "(attribute_not_exists(claimed_until) OR claimed_until <= :now OR claimed_by = :by)",
		values: attributes{":by": text(by), ":now": text(instant(now))}}
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

func (s *Payments) Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount, perMerchant map[string]uint64,
	seen *wallet.Progress) error {
	c := change{fits: cmp.Or(store.Within("merchants", len(perMerchant), wallet.MaxInFlight), store.FitsProgress(seen)),
		still: attributes{"next_nonce": number(w.NextNonce), "returned": numberOrNone(w.Returned)},
		set:   attributes{"token_available": units(wallet.Spendable(balance)), "gas_available": units(wallet.Spendable(gas))}}
	c.keep(seen)
	if perMerchant != nil {
		c.set["in_flight"] = encodeValue(perMerchant)
	}
	return s.change(ctx, w.ID, "reconciling", c)
}

func (s *Payments) Advance(ctx context.Context, id wallet.ID, next, noopsBelow uint64) error {
	return unlessChanged(s.change(ctx, id, "advancing", change{when: "next_nonce <= :next", values: attributes{":next": number(next)},
		set: attributes{"next_nonce": number(next), "noops_below": number(noopsBelow)}}))
}

func (s *Payments) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return s.change(ctx, id, "pausing", change{set: attributes{"paused": text(cmp.Or(reason, wallet.Unexplained))}})
}

func (s *Payments) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	c := change{when: "paused IN (:from, :to)", values: attributes{":from": text(from), ":to": text(to)},
		set: attributes{"paused": textOrNone(to)}}
	if from == "" || to == "" {
		c.when = "(" + c.when + " OR attribute_not_exists(paused))"
	}
	return s.change(ctx, id, "changing the pause of", c)
}

// change changes a stored wallet. It returns wallet.ErrUnknown if the wallet is not stored,
// and store.ErrChanged if the stored one does not meet the condition.
func (s *Payments) change(ctx context.Context, id wallet.ID, doing string, c change) error {
	c.key, c.when = keyOf(id), strings.TrimSuffix("attribute_exists(pk) AND "+c.when, " AND ")
	_, err := s.apply(ctx, c)
	if item, failed := refused(err); failed && item == nil {
		return wallet.ErrUnknown
	}
	return outcome(err, store.ErrChanged, doing+" "+id.Address.String())
}

// Spendable amounts of a walletItem are numbers, so that the update of a reservation can compare and subtract them.
type walletItem struct {
	PK           string                `dynamodbav:"pk"`
	SK           string                `dynamodbav:"sk"`
	NextNonce    *uint64               `dynamodbav:"next_nonce"`
	Returned     uint64                `dynamodbav:"returned,omitempty"`
	Ceiling      *uint64               `dynamodbav:"nonce_ceiling"`
	NoopsBelow   uint64                `dynamodbav:"noops_below,omitempty"`
	Reservations map[string]uint64     `dynamodbav:"reservations"` // payment id → nonce
	ReservedAt   map[string]string     `dynamodbav:"reserved_at"`  // payment id → time
	ReservedFor  map[string]string     `dynamodbav:"reserved_for"` // payment id → revision
	Token        attributevalue.Number `dynamodbav:"token_available"`
	Gas          attributevalue.Number `dynamodbav:"gas_available"` // wei
	Paused       string                `dynamodbav:"paused,omitempty"`
	ClaimedUntil string                `dynamodbav:"claimed_until,omitempty"`
	InFlight     map[string]int64      `dynamodbav:"in_flight"` // merchant → nonces
	Merchant     string                `dynamodbav:"assigned_to,omitempty"`
}

// encodeWallet writes empty maps too: reservations set their elements, which DynamoDB does in existing maps only.
func encodeWallet(w wallet.Wallet) attributes {
	it := walletItem{
		PK: walletPK(w.ID), SK: "wallet", NextNonce: &w.NextNonce, Returned: w.Returned, Ceiling: &w.Ceiling,
		NoopsBelow: w.NoopsBelow, Reservations: map[string]uint64{}, ReservedAt: map[string]string{},
		ReservedFor: map[string]string{}, InFlight: map[string]int64{},
		Token: attributevalue.Number(wallet.Spendable(w.Balance).String()),
		Gas:   attributevalue.Number(wallet.Spendable(w.Gas).String()), Paused: w.Paused,
		ClaimedUntil: instant(w.ClaimedUntil), Merchant: w.Merchant,
	}
	for id, reservation := range w.Reservations {
		it.Reservations[string(id)], it.ReservedAt[string(id)], it.ReservedFor[string(id)] = reservation.Nonce, instant(reservation.At),
			reservation.For
	}
	return encode(it)
}

// farAway is the end of a claim that cannot be read: no run believes one for so long.
var farAway = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// decodeWallet returns the decoder of the wallet id. Its error is store.ErrUnreadable.
func decodeWallet(id wallet.ID) func(attributes) (wallet.Wallet, error) {
	return func(item attributes) (wallet.Wallet, error) {
		var nonces struct { // whatever else is damaged
			Next         *uint64           `dynamodbav:"next_nonce"`
			Ceiling      *uint64           `dynamodbav:"nonce_ceiling"`
			Reservations map[string]uint64 `dynamodbav:"reservations"`
			ReservedAt   map[string]string `dynamodbav:"reserved_at"`
		}
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
			Paused: it.Paused, Merchant: it.Merchant, ClaimedUntil: r.instant("claimed_until", it.ClaimedUntil),
			PerMerchant: make(map[string]uint64, len(it.InFlight)), Progress: progressOf(item),
		}
		for merchant, n := range it.InFlight {
			w.PerMerchant[merchant] = uint64(max(n, 0))
		}
		for holder, nonce := range nonces.Reservations {
			w.Reservations[payment.ID(holder)] = wallet.Reservation{Nonce: nonce, At: r.instant("reserved_at", nonces.ReservedAt[holder]),
				For: it.ReservedFor[holder]}
		}
		if err := errors.Join(r.errs...); err != nil {
			w.Damaged = err.Error()
			if w.ClaimedUntil.IsZero() && it.ClaimedUntil != "" {
				w.ClaimedUntil = farAway
			}
			if item["paused"] != nil && w.Paused == "" {
				w.Paused = wallet.Wallet{Paused: "a reason that cannot be read"}.PausedFor(wallet.Suspicion) // it may have been that
			}
		}
		return w, nil
	}
}
