package model

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// The largest world.
const (
	maxWallets   = 2
	maxNonces    = 3
	maxRevisions = 3
)

// The steps of the world around Remit.
const (
	mine        = operations + 1 + iota // a block takes the bytes at the wallet's next nonce
	reorganize                          // the newest block of a wallet that is not final goes
	finalize                            // its oldest becomes final
	copyTables                          // an operator copies the tables
	lose                                // an operator restores the copy, or empty tables, and holds every wallet
	loseQuietly                         // the same before anybody has noticed, with nothing in flight
	hold                                // a run or an operator finds the chain ahead, and every wallet is held
	deadline                            // the time of the requests passes
	compare                             // a run compares a rail with its chain, and holds it if the chain is ahead
	addRail                             // an operator adds the second rail, and then its nodes
	closeRail                           // an operator closes a rail, before any loss
	openRail                            // and opens it
)

// A World bounds a search. Each number is at most the largest of its kind.
type World struct {
	Wallets, Nonces, Revisions uint8
	Reorgs, Copies, Losses     uint8
	Bumps, Cancels, Deadline   bool
	Rails, Adds, Closes        bool // each wallet is a rail's; the second is added; rails are closed

	Without Guard     // this guard is removed
	Only    Violation // the search ends with this one only; "": with any
}

// A rail is the record of a rail, with the marks of its comparison.
type rail struct {
	known, closed, compared, abreast bool
	added, closing                   bool // in this series
}

// tables are the part that a loss takes back.
type tables struct {
	Payment Payment
	Wallets [maxWallets]Wallet
	Held    [maxWallets]Reservation
	Stored  [maxWallets][maxNonces]Bytes
	Rails   [maxWallets]rail
}

// endSeries drops the marks of a series of runs.
func (t *tables) endSeries() {
	for i, r := range t.Rails {
		t.Rails[i] = rail{known: r.known, closed: r.closed}
	}
}

// A state is the whole of a small world. It is comparable.
type state struct {
	tables
	copied tables
	nonces [maxWallets][maxNonces]Nonce
	told   [maxWallets][maxNonces][maxRevisions]bool
	sure   [maxWallets]bool // a process has passed its check: it may reserve there, and does not check again
	nodes  [maxWallets]bool // there are nodes of the rail's chain

	assigned        [maxRevisions]uint8 // the wallet of each revision
	refused         [maxRevisions]bool  // a client was told that nothing was started
	count, final    [maxWallets]uint8   // of mined nonces, of final ones
	revs, reorgs    uint8               // so far
	copies, losses  uint8
	late, beganLate bool
}

// A Violation must never happen.
type Violation string

// The violations.
const (
	PaidTwice   Violation = "pays twice"
	PaidRefused Violation = "pays what was refused"
	WrongEnd    Violation = "reports the wrong end"
	TwoOwners   Violation = "gives a nonce two owners"
	BeganLate   Violation = "begins after its time"
)

// violations returns the violations of a state.
func (s *state) violations() []Violation {
	paid, refused, clash := 0, false, false
	for w := range s.nonces {
		for _, n := range s.nonces[w] {
			if n.Mined&Pays != 0 {
				paid++
				refused = refused || n.For > 0 && s.refused[n.For-1]
			}
			clash = clash || n.Clash() && s.losses == 0 // a recovery uses up nonces that handlers may still commit
		}
	}
	var all []Violation
	wrong := s.Payment.State == Failed && paid > 0 || s.Payment.State == Confirmed && paid == 0
	for i, is := range [...]bool{paid > 1, refused, wrong, clash, s.beganLate} {
		if is {
			all = append(all, [...]Violation{PaidTwice, PaidRefused, WrongEnd, TwoOwners, BeganLate}[i])
		}
	}
	return all
}

// place returns the place of a step, and whether there is one.
func (w World) place(s *state, step Step) (p Place, ok bool) {
	if step.Nonce >= uint16(w.Nonces) || step.Rev > uint16(w.Revisions) {
		return p, false
	}
	i, n := step.Wallet, step.Nonce
	p = Place{
		Payment: &s.Payment, Wallet: &s.Wallets[i], Held: &s.Held[i], Holder: &s.Held[s.Payment.Wallet],
		Stored: &s.Stored[i][n], Nonce: &s.nonces[i][n],
		Told: &s.told[i][n][max(step.Rev, 1)-1], Late: s.late, Unsure: w.Rails && !s.sure[i],
	}
	for v := range w.Wallets {
		if w.Rails && v != i { // a rail knows nothing of another
			continue
		}
		next := s.Wallets[v].Next
		p.Ahead = p.Ahead || uint16(s.count[v]) > next
		p.Behind = p.Behind || uint16(s.final[v]) < next || s.Held[v].held()
		for n, at := range s.nonces[v] {
			here := Step{Wallet: v, Nonce: uint16(n)}
			p.Signed = p.Signed || uint16(n) >= next && at.Out&Pays != 0
			p.Lost = p.Lost || at.Mined&Pays != 0 && !s.Payment.at(here)
		}
	}
	return p, true
}

// take takes a step, and reports whether it is possible.
func (w World) take(s *state, step Step) bool {
	if step.Op > operations {
		return w.around(s, step)
	}
	if step.Op == Create || step.Op == Reassign {
		if r := s.Rails[step.Wallet]; w.Rails && (step.Op == Reassign || !r.known || r.closed || !s.nodes[step.Wallet]) {
			return false
		}
		step.Rev = uint16(s.revs) + 1
	}
	p, ok := w.place(s, step)
	if step.Op == Delete && s.Payment.State > Committed {
		s.Payment.Published = true
	}
	if !ok || step.Op == PutNoop && !w.ending(s, p, step) || w.Do(p, step) != None {
		return false
	}
	switch step.Op {
	case Create, Reassign:
		s.assigned[step.Rev-1] = step.Wallet
		s.revs++
	case Discard:
		s.refused[step.Rev-1] = s.losses == 0 // restored tables do not know
	case Reserve:
		step.Nonce = p.Held.Nonce
		s.beganLate = s.beganLate || s.late && w.Without == InTime
		if p, ok = w.place(s, step); !ok {
			return false
		}
		w.Tell(p)
	case PutNoop:
		if s.Wallets[step.Wallet].Suspect { // and raises next_nonce over it
			s.Wallets[step.Wallet].Next = max(s.Wallets[step.Wallet].Next, step.Nonce+1)
		}
	case Resume: // of every wallet, or of the rail's
		for v := uint8(0); v < w.Wallets; v++ {
			if w.Rails && v != step.Wallet {
				continue
			}
			s.Wallets[v].Suspect, s.Wallets[v].Paused = false, false
			for n := range s.nonces[v][:s.final[v]] { // a no-op's write may be frozen until then
				s.nonces[v][n].Orphaned = true
			}
		}
	}
	return true
}

// ending reports whether somebody wants a no-op there: for an orphan, or in a recovery, at the lowest nonce without a
// transaction up to the last that was signed.
func (w World) ending(s *state, p Place, step Step) bool {
	if !p.Wallet.Suspect {
		return p.Held.held() && p.Held.Nonce == step.Nonce || p.Nonce.Orphaned
	}
	signed := slices.ContainsFunc(s.nonces[step.Wallet][step.Nonce:], func(n Nonce) bool { return n.Out != 0 })
	reserved := p.Held.held() && p.Held.Nonce >= step.Nonce
	return !p.Nonce.Final && (signed || reserved || step.Nonce < p.Wallet.Next) && w.Without != UseUpFirst
}

// around takes a step of the world around Remit.
func (w World) around(s *state, step Step) bool {
	i := step.Wallet
	n := uint16(s.count[i])
	switch step.Op {
	case mine:
		if n >= uint16(w.Nonces) || s.nonces[i][n].Out&step.Bytes == 0 {
			return false
		}
		s.nonces[i][n].Mined = step.Bytes
		s.count[i]++
		if w.Reorgs == 0 { // every block is final
			s.finalize(i)
		}
	case reorganize:
		if s.reorgs >= w.Reorgs || s.count[i] <= s.final[i] {
			return false
		}
		s.reorgs++
		s.count[i]--
		s.nonces[i][n-1].Mined = 0
	case finalize:
		if s.count[i] <= s.final[i] {
			return false
		}
		s.finalize(i)
	case copyTables:
		if s.copies >= w.Copies || s.losses > 0 {
			return false
		}
		s.copies++
		s.copied = s.tables
		if w.Without != ThisSeries {
			s.copied.endSeries()
		}
	case lose, loseQuietly:
		if s.losses >= w.Losses || step.Op == loseQuietly && w.flying(s) {
			return false
		}
		s.losses++
		s.refused = [maxRevisions]bool{}
		s.tables = s.copied
		s.copied = tables{} // never again
		s.copies = w.Copies
		for v := range s.Held {
			s.Held[v].Restored = s.Held[v].held()
		}
		s.sure = [maxWallets]bool{}
		if w.Without != NewProcesses {
			s.told = [maxWallets][maxNonces][maxRevisions]bool{}
			for v := range s.nonces {
				for n := range s.nonces[v] {
					s.nonces[v][n].Orphaned = false
				}
			}
		}
		if step.Op == lose && w.Without != HoldFirst {
			w.hold(s)
		}
	case hold:
		if s.losses == 0 || w.Rails || s.Wallets[0].Suspect {
			return false
		}
		w.hold(s)
	case deadline:
		if !w.Deadline || s.late {
			return false
		}
		s.late = true
	default:
		return w.Rails && w.onRail(s, step)
	}
	return true
}

// onRail takes a step of a run, or of an operator, on a rail.
func (w World) onRail(s *state, step Step) bool {
	i := step.Wallet
	r, wallet := &s.Rails[i], &s.Wallets[i]
	switch step.Op {
	case compare:
		if !r.known {
			return false
		}
		r.compared = true
		if uint16(s.count[i]) > wallet.Next {
			wallet.Suspect, wallet.Paused = true, true
		} else {
			r.abreast = r.abreast || !wallet.Suspect || w.Without == NotHeld
		}
	case addRail:
		if r.known {
			return false
		}
		r.known, r.added = true, !s.nodes[i] || w.Without == AddedSince
		s.nodes[i] = true
	case closeRail:
		if !w.Closes || s.losses > 0 {
			return false
		}
		r.closed, r.closing = true, true
	case openRail:
		r.closed, r.closing = false, false
	}
	return true
}

// check lets a process check the rails: if it finds the others abreast, it may reserve from then on.
func (w World) check(s *state) {
	if !w.Rails {
		return
	}
	for v := range w.Wallets {
		unsure := false
		for o := range w.Wallets {
			r := s.Rails[o]
			abreast := r.compared && (r.abreast || w.Without == AbreastOnce) || r.added || r.closing || r.closed && w.Without == ClosedSince
			gone := !r.known && (!s.nodes[o] || w.Without == RailsInSecret)
			unsure = unsure || o != v && !abreast && !gone && w.Without != EveryRail
		}
		s.sure[v] = s.sure[v] || !unsure
	}
	if !slices.Contains(s.sure[:w.Wallets], false) && w.Without != ThisSeries {
		s.endSeries() // its marks have served
	}
}

// forget drops memories that no step can use: a commit needs the revision of a prepared payment.
func (w World) forget(s *state) state {
	w.check(s)
	for v := range s.told {
		for n := range s.told[v] {
			for r := range s.told[v][n] {
				current := s.Payment.State == Prepared && s.Payment.Rev == uint16(r)+1
				s.told[v][n][r] = s.told[v][n][r] && (current || w.Without != None)
			}
		}
	}
	return *s
}

func (s *state) finalize(wallet uint8) {
	n := &s.nonces[wallet][s.final[wallet]]
	n.Final, n.Out = true, n.Mined|n.Out&clash // no other bytes can be mined
	s.final[wallet]++
}

func (w World) hold(s *state) {
	for v := range w.Wallets {
		s.Wallets[v].Suspect, s.Wallets[v].Paused = true, true
	}
}

// flying reports whether bytes are out that may yet be mined, or mined again.
func (w World) flying(s *state) bool {
	for v := range w.Wallets {
		for _, n := range s.nonces[v] {
			if n.Out != 0 && !n.Final {
				return true
			}
		}
	}
	return false
}

// steps calls yield with every step that may be possible.
func (w World) steps(s *state, yield func(Step)) {
	for v := range w.Wallets {
		for op := Create; op < operations; op++ {
			switch op {
			case Create, Reassign:
				if op == Create || v != s.Payment.Wallet {
					yield(Step{Op: op, Wallet: v})
				}
			case Discard, Reserve:
				for r := range s.revs {
					if s.assigned[r] == v {
						yield(Step{Op: op, Wallet: v, Rev: uint16(r) + 1})
					}
				}
			case Commit, Send:
				for n := range w.Nonces {
					for r := range s.revs {
						if s.told[v][n][r] && (op == Commit || w.Without == StoredFirst) {
							yield(Step{Op: op, Wallet: v, Nonce: uint16(n), Rev: uint16(r) + 1, Bytes: First})
						}
					}
				}
			case Orphan, Release, Return:
				if s.Held[v].held() {
					yield(Step{Op: op, Wallet: v, Nonce: s.Held[v].Nonce, Rev: s.Held[v].For})
				}
			case Resume:
				if (v == 0 || w.Rails) && s.Wallets[v].Suspect {
					yield(Step{Op: op, Wallet: v})
				}
			default:
				w.atNonces(s, op, v, yield)
			}
		}
		for _, b := range []Bytes{First, Later, Noop} {
			yield(Step{Op: mine, Wallet: v, Nonce: uint16(s.count[v]), Bytes: b})
		}
		yield(Step{Op: reorganize, Wallet: v})
		yield(Step{Op: finalize, Wallet: v})
		for op := compare; w.Rails && op <= openRail; op++ {
			yield(Step{Op: op, Wallet: v})
		}
	}
	for op := copyTables; op <= deadline; op++ {
		yield(Step{Op: op})
	}
}

// atNonces yields the steps that a run, or a recovery, may take at each nonce.
func (w World) atNonces(s *state, op Op, v uint8, yield func(Step)) {
	for n := range w.Nonces {
		step := Step{Op: op, Wallet: v, Nonce: uint16(n)}
		switch op {
		case Bump:
			step.Bytes = Later
			if !w.Bumps || !s.Payment.at(step) && (w.Without != SameNonce || s.Payment.State != Committed) {
				continue
			}
		case Cancel:
			step.Bytes = Noop
			if !w.Cancels {
				continue
			}
		case Delete: // published just before
			if s.Stored[v][n] == 0 {
				continue
			}
		case Publish:
			continue
		}
		yield(step)
	}
}

// A Run is a shortest run that ends in a violation.
type Run struct {
	Violation Violation
	Steps     []Step
}

// String is the run on one line.
func (r *Run) String() string {
	if r == nil {
		return "no violation"
	}
	steps := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		steps[i] = s.String()
	}
	return fmt.Sprintf("%s: %s", r.Violation, strings.Join(steps, "; "))
}

// Search visits every state of the world, breadth first. It returns how many there are, and the first violation. A
// state is known by 64 bits of its hash: of a million states, the chance to miss one is below one in ten million.
func (w World) Search() (states int, found *Run) {
	type node struct {
		from int32
		step Step
	}
	seed := maphash.MakeSeed()
	seen, nodes := map[uint64]struct{}{}, []node{}
	var here, next []state
	add := func(s state, from int32, step Step) {
		hash := maphash.Comparable(seed, s)
		if _, known := seen[hash]; known || found != nil {
			return
		}
		seen[hash] = struct{}{}
		nodes = append(nodes, node{from, step})
		next = append(next, s)
		if bad := s.violations(); len(bad) > 0 && (w.Only == "" || slices.Contains(bad, w.Only)) {
			found = &Run{Violation: cmp.Or(w.Only, bad[0])}
			for i := int32(len(nodes) - 1); i > 0; i = nodes[i].from {
				found.Steps = append(found.Steps, nodes[i].step)
			}
			slices.Reverse(found.Steps)
		}
	}
	start := state{}
	for v := range w.Wallets {
		start.nodes[v] = v == 0 || !w.Adds
		start.Rails[v].known = start.nodes[v]
	}
	add(w.forget(&start), 0, Step{})
	for first := int32(0); len(next) > 0 && found == nil; first = int32(len(nodes) - len(next)) {
		here, next = next, here[:0]
		for i, s := range here {
			w.steps(&s, func(step Step) {
				if after := s; w.take(&after, step) && w.forget(&after) != s {
					add(after, first+int32(i), step)
				}
			})
		}
	}
	return len(nodes), found
}
