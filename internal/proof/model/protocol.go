// Package model is Remit's protocol as a small state machine: one key, its payment, and the wallets that may pay it.
// World.Do is its definition: each step, with its guards and its effect. Search visits every state of a small world.
// Package simulation accepts a run only if each of its writes is such a step.
//
// A process that crashed does nothing more, and a process that froze may go on at any time with all that it was ever
// told. So the model has no processes: it remembers each nonce that anybody was told. That covers any number of them.
package model

import (
	"cmp"
	"fmt"
)

// An Op is a kind of step.
type Op uint8

// The steps of Remit's processes.
const (
	Create   Op = iota // a request stores the payment, assigned to a wallet
	Reassign           // a request assigns it to another wallet, under a new revision
	Discard            // a request is refused: its client is told that nothing was started
	Reserve            // the payment takes the wallet's next nonce, or is told the one that it holds
	Commit             // the payment's signed bytes are stored at a nonce
	Orphan             // a reservation is marked: its payment will not use the nonce
	PutNoop            // a no-op is stored at a nonce
	Release            // a reservation ends
	Return             // a reservation is undone
	Send               // bytes go to a node
	Bump               // a dearer attempt at the payment's nonce is stored
	Cancel             // an attempt that pays nothing is stored there
	Confirm            // the payment is reported as paid
	Fail               // the payment is reported as never paid
	Publish            // its event is published
	Delete             // the pending transaction goes
	PutBack            // a recovery commits the payment by the transaction that made it
	Resume             // a recovery ends the suspicion of a wallet
	operations
)

var names = [...]string{"create", "reassign", "discard", "reserve", "commit", "orphan", "put a no-op", "release", "return", "send", "bump",
	"cancel", "confirm", "fail", "publish", "delete", "put back", "resume", "", "mine", "reorganize", "finalize", "copy the tables",
	"lose the tables", "lose them unnoticed", "hold every wallet", "pass the deadline", "compare rail", "add rail",
	"close rail", "open rail"}

// A Step is one step, at a nonce of a wallet, for a revision of the payment, with bytes. Each Op ignores some.
type Step struct {
	Op         Op
	Wallet     uint8
	Nonce, Rev uint16
	Bytes      Bytes
}

// String names the step: "commit 0#2, revision 1".
func (s Step) String() string {
	text := names[s.Op]
	switch {
	case s.Op >= compare:
		text += fmt.Sprintf(" %d", s.Wallet)
	case s.Op < copyTables && s.Op != Resume:
		text += fmt.Sprintf(" %d#%d", s.Wallet, s.Nonce)
	}
	if s.Rev > 0 {
		text += fmt.Sprintf(", revision %d", s.Rev)
	}
	return text
}

// Bytes are kinds of signed bytes at a nonce.
type Bytes uint8

// The kinds.
const (
	First   Bytes = 1 << iota // pays
	Later                     // pays too: a bump
	Noop                      // pays nothing
	Foreign                   // somebody else signed them
	clash                     // in Nonce.Out: bytes of two owners were stored
	Pays    = First | Later
)

// States of a Payment.
const (
	Absent uint16 = iota
	Prepared
	Committed
	Confirmed
	Failed
)

// A Payment is the key's payment in the tables.
type Payment struct {
	State, Nonce, Rev uint16
	Wallet            uint8
	Published         bool
}

// at reports whether the payment was committed at a nonce.
func (p Payment) at(s Step) bool {
	return p.State >= Committed && p.Wallet == s.Wallet && p.Nonce == s.Nonce
}

// A Wallet is the record of a wallet in the tables.
type Wallet struct {
	Next    uint16 // the nonce of the next reservation
	Paused  bool
	Suspect bool // paused, since the tables may lack payments
}

// A Reservation is the payment's in one wallet. Zero: none.
type Reservation struct {
	Nonce, For uint16 // For: the revision of the payment, from 1
	Orphan     bool
	Restored   bool // it came with restored tables: every process since then that asks is told the nonce
}

func (r Reservation) held() bool { return r.For != 0 }

// A Nonce is the chain's side of a nonce, which no loss of tables takes back.
type Nonce struct {
	Out, Mined Bytes  // ever stored, and so perhaps in anybody's hands; in a block
	For        uint16 // the revision of bytes that pay
	Final      bool   // the block is final
	Orphaned   bool   // somebody knows that its reservation is an orphan's, or that its wallet was under suspicion
}

// Clash reports whether bytes of two owners were stored.
func (n Nonce) Clash() bool { return n.Out&clash != 0 }

// A Place has everything that one step reads and writes.
type Place struct {
	Payment *Payment
	Wallet  *Wallet
	Held    *Reservation
	Holder  *Reservation // of the payment, in the wallet that it is assigned to
	Stored  *Bytes       // at the nonce, in the tables
	Nonce   *Nonce
	Told    *bool // somebody was told that the payment holds the nonce for the revision

	Late   bool // the request's time has passed
	Ahead  bool // the chain has more transactions of a wallet than the tables have nonces; with rails, of the wallet's rail
	Unsure bool // nobody has found every other rail abreast of its chain since these tables came to be
	Behind bool // a nonce below a next_nonce is not final, or reserved
	Signed bool // a nonce at or above next_nonce has bytes that pay
	Lost   bool // a payment that is mined is not in the tables
}

// A Guard is a condition of a step.
type Guard uint8

// The guards. String is the condition in words.
const (
	None Guard = iota
	IfAbsent
	IfPrepared
	SameRevision
	OneWrite
	UnusedNonce
	ToldNonce
	StillPrepared
	NotRestored
	NotPaused
	OneReservation
	InTime
	Abreast
	NotSuspect
	UnusedHolder
	OrphanFirst
	StoredNonce
	ReturnUnused
	ReturnLast
	StoredFirst
	SameNonce
	FinalFirst
	EveryAttempt
	EventFirst
	WaitForFinality
	UseUpFirst
	PutBackFirst
	HoldFirst
	NewProcesses
	EveryRail
	AbreastOnce
	ThisSeries
	HeldToo
	NotHeld
	ClosedSince
	RailsInSecret
	AddedSince
	guards
)

var asks = [guards]string{
	IfAbsent:        "a payment is created only if its key has none",
	IfPrepared:      "a commit finds the payment prepared",
	SameRevision:    "a commit finds the revision that it was signed for",
	OneWrite:        "payment and pending transaction are committed in one write",
	UnusedNonce:     "a pending transaction is stored only at a nonce that has none",
	ToldNonce:       "a payment is committed only at a nonce that it was told for this revision",
	StillPrepared:   "only a prepared payment is discarded or reassigned, in the revision that was read",
	NotRestored:     "a payment that holds a nonce of restored tables is made there, or nowhere",
	NotPaused:       "a paused wallet gives no nonce",
	OneReservation:  "a payment holds one nonce of a wallet at most",
	InTime:          "no nonce is reserved after the request's time",
	Abreast:         "no nonce is reserved while the chain is ahead of the tables",
	NotSuspect:      "a reservation of a wallet under suspicion is not committed",
	UnusedHolder:    "only a reservation that its payment will not use is orphaned",
	OrphanFirst:     "a no-op is stored only after its reservation was orphaned, or under suspicion",
	StoredNonce:     "a reservation ends only after a transaction is stored at its nonce",
	ReturnUnused:    "a nonce goes back only if its payment is committed elsewhere",
	ReturnLast:      "only a wallet's last nonce goes back, unless it is orphaned or the wallet is paused",
	StoredFirst:     "bytes are stored before they are sent",
	SameNonce:       "a bump keeps its nonce",
	FinalFirst:      "a payment ends only after its nonce is final",
	EveryAttempt:    "every attempt counts, lost ones too, before a payment has failed",
	EventFirst:      "a pending transaction goes after its payment's event, or after the final no-op",
	WaitForFinality: "a recovery waits until every nonce below next_nonce is final",
	UseUpFirst:      "a recovery uses up every nonce that may have been signed",
	PutBackFirst:    "a recovery puts every payment back before a wallet is resumed",
	HoldFirst:       "restored tables are held before any process uses them",
	NewProcesses:    "no process of before the loss uses restored tables",
	EveryRail:       "no nonce is reserved before every other rail was compared with its chain",
	AbreastOnce:     "and was found abreast of it once",
	ThisSeries:      "a comparison counts only for the series of runs that made it, which a loss ends",
	HeldToo:         "nor is a nonce of restored tables told before that",
	NotHeld:         "a rail under suspicion is not abreast",
	ClosedSince:     "a closed rail is left out only if it was closed in this series",
	RailsInSecret:   "no nonce is reserved while there are nodes of a chain that no rail has",
	AddedSince:      "a rail whose nodes were there before it does not count as new",
}

// String is the guard as a sentence.
func (g Guard) String() string { return asks[g] }

// need is a guard, and whether it is met.
type need struct {
	guard Guard
	met   bool
}

// first returns the first guard that is not met, unless the world is without it.
func (w World) first(needs ...need) Guard {
	for _, n := range needs {
		if !n.met && n.guard != w.Without {
			return n.guard
		}
	}
	return None
}

// Do takes a step of Remit's processes at its place, or returns the guard that forbids it and changes nothing.
func (w World) Do(p Place, s Step) (refused Guard) {
	pay, held, stored, nonce := p.Payment, p.Held, p.Stored, p.Nonce
	here, free := pay.at(s), !p.Holder.Restored || p.Holder.For != pay.Rev
	store := func(b Bytes) { // bytes of the payment
		*stored |= b
		nonce.Out |= b
		if b&Pays != 0 {
			nonce.For = pay.Rev
		}
	}
	switch s.Op {
	case Create:
		if refused = w.first(need{IfAbsent, pay.State == Absent}); refused == None {
			*pay = Payment{State: Prepared, Wallet: s.Wallet, Rev: s.Rev}
		}
	case Reassign:
		if refused = w.first(need{StillPrepared, pay.State == Prepared}, need{NotRestored, free}); refused == None {
			pay.Wallet, pay.Rev = s.Wallet, s.Rev
		}
	case Discard:
		refused = w.first(need{StillPrepared, pay.State == Prepared && pay.Rev == s.Rev}, need{NotRestored, free})
		if refused == None {
			*pay = Payment{}
		}
	case Reserve:
		return w.reserve(p, s)
	case Commit:
		refused = w.first(need{ToldNonce, *p.Told}, need{IfPrepared, pay.State == Prepared},
			need{SameRevision, pay.Rev == s.Rev}, need{UnusedNonce, *stored == 0})
		if refused != None {
			return refused
		}
		if nonce.Out != 0 {
			nonce.Out |= clash
		}
		if w.Without != OneWrite { // otherwise it crashes in between
			pay.State, pay.Wallet, pay.Nonce = Committed, s.Wallet, s.Nonce
		}
		store(First)
		nonce.For = s.Rev
	case Orphan:
		used := here || pay.State == Prepared && pay.Rev == held.For
		if refused = w.first(need{UnusedHolder, held.held() && !used}); refused == None {
			held.Orphan, nonce.Orphaned = true, true
		}
	case PutNoop:
		unused := nonce.Orphaned || p.Wallet.Suspect || s.Nonce >= p.Wallet.Next
		if refused = w.first(need{OrphanFirst, unused}, need{UnusedNonce, *stored == 0}); refused == None {
			store(cmp.Or(s.Bytes, Noop)) // others too if it is an attempt of a payment, or mends one
		}
	case Release:
		if refused = w.first(need{StoredNonce, *stored != 0 || here || nonce.Orphaned}); refused == None {
			*held = Reservation{}
		}
	case Return:
		last := held.Nonce == s.Nonce && !held.Orphan && p.Wallet.Next == s.Nonce+1 && !p.Wallet.Paused
		refused = w.first(need{ReturnUnused, pay.State >= Committed && !here}, need{ReturnLast, last})
		if refused == None {
			*held, p.Wallet.Next = Reservation{}, s.Nonce
		}
	case Send:
		if refused = w.first(need{StoredFirst, nonce.Out&s.Bytes != 0}); refused == None {
			nonce.Out |= s.Bytes
			nonce.For = s.Rev
		}
	case Bump, Cancel:
		if refused = w.first(need{SameNonce, here && *stored != 0}); refused == None {
			store(s.Bytes)
		}
	case Confirm, Fail:
		to, needs := Confirmed, need{EveryAttempt, nonce.Mined&Pays != 0 && nonce.Mined&*stored != 0}
		if s.Op == Fail {
			to, needs = Failed, need{EveryAttempt, nonce.Mined&Pays == 0}
		}
		refused = w.first(need{SameNonce, here && pay.State == Committed}, need{FinalFirst, nonce.Final}, needs)
		if refused == None {
			pay.State = to
		}
	case Publish:
		if refused = w.first(need{FinalFirst, pay.State > Committed}); refused == None {
			pay.Published = true
		}
	case Delete:
		ended := nonce.Final && (*stored == Noop && !here || here && pay.State > Committed && pay.Published)
		torn := p.Wallet.Suspect && *stored&Pays != 0 && pay.State <= Prepared
		if refused = w.first(need{EventFirst, ended || torn || *stored == 0}); refused == None {
			*stored = 0
		}
	case PutBack:
		refused = w.first(need{WaitForFinality, !p.Behind && nonce.Final && nonce.Mined&Pays != 0},
			need{IfPrepared, pay.State <= Prepared}, need{UnusedNonce, *stored == 0})
		if refused == None {
			*pay = Payment{State: Committed, Wallet: s.Wallet, Nonce: s.Nonce, Rev: pay.Rev}
			store(nonce.Mined)
		}
	case Resume:
		refused = w.first(need{UseUpFirst, !p.Signed}, need{WaitForFinality, !p.Behind}, need{PutBackFirst, !p.Lost})
		if refused == None {
			p.Wallet.Suspect, p.Wallet.Paused = false, false
		}
	}
	return refused
}

// reserve is Do of Reserve. A payment that holds a nonce for the revision is told it, be the wallet paused or not.
func (w World) reserve(p Place, s Step) Guard {
	held := p.Held
	if held.For == s.Rev {
		return w.first(need{Abreast, !p.Ahead || !held.Restored}, need{HeldToo, !p.Unsure || !held.Restored})
	}
	refused := w.first(need{NotPaused, !p.Wallet.Paused}, need{OneReservation, !held.held()}, need{InTime, !p.Late},
		need{Abreast, !p.Ahead}, need{EveryRail, !p.Unsure})
	if refused == None {
		*held = Reservation{Nonce: p.Wallet.Next, For: s.Rev}
		p.Wallet.Next++
	}
	return refused
}

// Tell is a process's reading of its reservation, after which it may commit the payment there.
func (w World) Tell(p Place) {
	*p.Told = *p.Told || !p.Wallet.Suspect || w.Without == NotSuspect
}
