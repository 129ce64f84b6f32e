package simulation

import (
	"maps"
	"slices"
	"strings"
)

// Shrink looks for less that breaks a seed just as well: fewer kinds of faults
// and mischief, fewer clients, an earlier end. fails says whether a Taming of it
// still does.
func Shrink(fails func(Taming) bool) Taming {
	best := Taming{Without: map[string]bool{}}
	try := func(change func(*Taming)) {
		tame := best
		tame.Without = maps.Clone(best.Without)
		change(&tame)
		if fails(tame) {
			best = tame
		}
	}
	try(func(t *Taming) { t.NoMischief = true })
	try(func(t *Taming) { t.NoFaults = true })
	for n := 1; n < 6; n++ {
		if best.Clients == 0 {
			try(func(t *Taming) { t.Clients = n })
		}
	}
	for n := 25; n < 3_000 && best.Steps == 0; n = n * 5 / 4 {
		try(func(t *Taming) { t.Steps = n })
	}
	names := slices.Sorted(maps.Keys(tricks))
	for o := FailBefore; o < outcomes; o++ {
		names = append(names, o.String())
	}
	for _, name := range names {
		try(func(t *Taming) { t.Without[name] = true })
	}
	return best
}

// dull are effects that say nothing when they go well.
var dull = []string{"Wallet ", "PendingTxs ", "PendingTx ", "Wallets ", "Account ", "Payment ", "Fees ", "Estimate ", "Claim ", "Receipts ", "BlockHashes ", "Reconcile "}

// Brief leaves out of a trace what only shows that things go on.
func Brief(trace []string) []string {
	return slices.DeleteFunc(slices.Clone(trace), func(line string) bool {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return true
		}
		rest := strings.Join(fields[2:], " ") + " "
		return strings.HasSuffix(line, "chain    block") || strings.HasSuffix(line, ": applied") &&
			slices.ContainsFunc(dull, func(op string) bool { return strings.HasPrefix(rest, op) })
	})
}
