package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/remit-payouts/remit/internal/sandbox/fault"
)

// A breakage is one fault that a person can cause.
type breakage struct {
	ID    string `json:"id"`
	Group string `json:"group"`
	Label string `json:"label"`
	Text  string `json:"text"` // its effect
	Does  string `json:"does"` // Remit's answer

	thing string // of which one breakage holds at a time; "" for others
	begin func(s *Sandbox) error
	end   func(s *Sandbox) // nil if the breakage ends at once
}

func cutAt(id, label, left, does string, cut fault.Cut) breakage {
	return breakage{ID: "cut-" + id, Group: "Kill the next request", Label: label, Does: does,
		Text:  "It leaves " + left + ".",
		thing: "process", begin: func(s *Sandbox) error { s.arm(cut); return nil },
		end: func(s *Sandbox) { s.arm(fault.Cut{}) }}
}

func habit(id, label, text, does string, node int, of func(*rail) *fault.Habit) breakage {
	return breakage{ID: id, Group: "Nodes", thing: fmt.Sprint("node ", node), Label: label, Text: text, Does: does,
		begin: func(s *Sandbox) error {
			return s.each(func(r *rail) error { r.doors[node].gateway.Habit.Store(of(r)); return nil })
		},
		end: func(s *Sandbox) {
			_ = s.each(func(r *rail) error { r.doors[node].gateway.Habit.Store(nil); return nil })
		}}
}

// each does something to every rail: a fault is of all chains.
func (s *Sandbox) each(do func(*rail) error) (err error) {
	for _, r := range s.rails {
		err = errors.Join(err, do(r))
	}
	return err
}

func receiver(id, label, text string, mode fault.Mode) breakage {
	return breakage{ID: id, Group: "Webhooks", thing: "receiver", Label: label, Text: text,
		Does:  "Remit stores the delivery and retries after five seconds, then less and less often.",
		begin: func(s *Sandbox) error { s.hooks.Set(mode); return nil },
		end:   func(s *Sandbox) { s.hooks.Set(fault.Pass) }}
}

// breakages are in the page's order.
var breakages = []breakage{
	cutAt("create", "after create", "a prepared payment: no money moves",
		"The next request with the key continues it.", fault.Cut{Op: "Create"}),
	cutAt("reserve", "after reserve", "a reservation",
		"A request with the key takes over the nonce, or check-receipts commits the payment.",
		fault.Cut{Op: "Reserve"}),
	cutAt("commit", "after commit", "the signed bytes, which no node has, and a reservation",
		"check-receipts releases the reservation and sends the stored bytes; a request with the key gets their hash.",
		fault.Cut{Op: "Commit"}),
	cutAt("before-broadcast", "before broadcast", "a pending transaction that no node has", "check-receipts sends it.",
		fault.Cut{Op: "Send", Before: true}),
	cutAt("after-broadcast", "after broadcast", "a payment that was sent, and a client without an answer",
		"A request with the key gets the same hash.", fault.Cut{Op: "Send"}),

	{ID: "lose", Group: "Store", Label: "lose the next answer of the store",
		Text:  "The next write takes effect, and its answer gets lost.",
		Does:  "Remit never takes unknown for not done: it reads the payment again.",
		begin: func(s *Sandbox) error { s.lose.Store(true); return nil }, end: func(s *Sandbox) { s.lose.Store(false) }},

	habit("node-down", "first node down", "The first node resets every connection.",
		"Remit queries the next node, and two of three are enough to confirm. failed waits for all.",
		0, func(*rail) *fault.Habit { return fault.Down() }),
	habit("node-hangs", "first node hangs", "The first node takes requests and never answers.",
		"Remit queries another after half a second, and after three misses stops querying the node for a while.",
		0, func(*rail) *fault.Habit { return fault.Hanging() }),
	habit("node-lies", "first node lies about receipts", "The first node reports every transaction as reverted.",
		"Remit compares receipts: no payment ends while nodes differ.", 0, func(*rail) *fault.Habit { return fault.Receipts(fault.Reverted) }),
	habit("node-batches", "first node takes three calls a batch", "The first node refuses larger batches.",
		"Remit splits the batch until the node takes it.",
		0, func(*rail) *fault.Habit { return fault.Batches(3, http.StatusRequestEntityTooLarge) }),
	habit("node-fork", "second node on a fork", "From now on, the second node is on a branch without our transactions.",
		"No payment ends on a block that a node contradicts.", 1,
		func(r *rail) *fault.Habit { return fault.Fork(r.on.Head().Number) }),
	{ID: "forget", Group: "Nodes", Label: "nodes forget their pools",
		Text:  "The nodes drop every transaction that is not mined, as after a restart.",
		Does:  "check-receipts sends the stored bytes again, for as long as they can be mined.",
		begin: func(s *Sandbox) error { return s.each(func(r *rail) error { r.on.DropPending(); return nil }) }},

	{ID: "reorg", Group: "Chain", Label: "re-organise", Text: "The two newest blocks are replaced by empty ones.",
		Does: "Only final blocks count. Replaced transactions are mined again, with the same bytes at the same nonce. " +
			"Remit promises nothing about reorgs deeper than the confirmation rule; here the pools still have the bytes.",
		begin: func(s *Sandbox) error { return s.each(func(r *rail) error { return r.on.Reorg(2) }) }},
	{ID: "halt", Group: "Chain", Label: "halt the chains", Text: "No block is made.",
		Does:  "Payments are committed and sent as usual, and wait.",
		begin: func(s *Sandbox) error { return s.each(func(r *rail) error { r.on.Freeze(true); return nil }) },
		end:   func(s *Sandbox) { _ = s.each(func(r *rail) error { r.on.Freeze(false); return nil }) }},

	receiver("hook-500", "receiver answers 500", "The receiver of webhooks answers 500.", fault.Fail),
	receiver("hook-hangs", "receiver hangs", "The receiver of webhooks takes requests and never answers.", fault.Stall),
	receiver("hook-gone", "receiver is gone", "The receiver of webhooks resets every connection.", fault.Reset),
}

// breakIt begins a breakage, or ends it if it is on. Once ctx has ended it does nothing.
func (s *Sandbox) breakIt(ctx context.Context, id string) error {
	i := slices.IndexFunc(breakages, func(b breakage) bool { return b.ID == id })
	if i < 0 {
		return fmt.Errorf("no fault is called %q; GET /page/facts lists them", id)
	}
	b := breakages[i]
	s.acting.Lock()
	defer s.acting.Unlock()
	if ctx.Err() != nil { // all was mended while this waited
		return nil
	}
	if s.isBroken(id) {
		s.mend(b)
		return nil
	}
	for _, other := range breakages {
		if b.thing != "" && other.thing == b.thing && s.isBroken(other.ID) {
			s.mend(other)
		}
	}
	s.mu.Lock()
	words := b.Group + ": " + b.Label + ". " + b.Text
	if b.end != nil {
		s.broken[id] = s.now()
	} else {
		words += " " + b.Does
	}
	s.logf("fault", "%s", words)
	s.mu.Unlock()
	err := b.begin(s)
	if err != nil {
		s.over(id, "It could not be broken.")
	}
	return err
}

func (s *Sandbox) isBroken(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, broken := s.broken[id]
	return broken
}

func (s *Sandbox) mend(b breakage) {
	b.end(s)
	s.over(b.ID, "Mended: "+b.Label+".")
}

func (s *Sandbox) arm(cut fault.Cut) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

func (s *Sandbox) over(id, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, id)
	s.logf("fault", "%s", words)
}
