package chains

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestPage holds the tables of docs/chains.md to the profiles: a row for each chain with its values, a row for
// each main network, and in each cell that is not ours a source, or that it is not verified.
func TestPage(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../../docs/chains.md"))(t))
	sourced := regexp.MustCompile(`\]\(https://[^\s|)]+\)|not verified|Remit|estimates`)
	var ids []uint64
	for i, p := range profiles {
		if slices.Contains(ids, p.ID) || p.Name == "" || p.BlockTime <= 0 || p.FeeLimit == 0 || p.Window == 0 || p.ConfirmationRule.Tag == "" {
			t.Errorf("a profile is incomplete or there twice: %+v", p)
		}
		ids = append(ids, p.ID)
		if _, err := token.ParseAddress(p.USDC); err != nil && p.USDC != "" {
			t.Errorf("%s: USDC is %q: %v", p.Name, p.USDC, err)
		}
		c := p.Complete(stack.Config{})
		row := fmt.Sprintf("| %s | %d | `%s` | %s | %d | %d | ", p.Name, p.ID, c.ConfirmationRule, c.BlockTime, p.FeeLimit, c.Own.Window)
		_, rest, found := strings.Cut(text, "\n"+row)
		usdc, rest, _ := strings.Cut(rest, " |\n")
		if !found || !strings.HasPrefix(usdc, "`"+p.USDC+"`") && p.USDC != "" || !sourced.MatchString(usdc) {
			t.Errorf("docs/chains.md has no row %sUSDC %s with its source", row, p.USDC)
		}
		if i%2 > 0 { // a test network was not looked up apart from its main network
			continue
		}
		_, family, _ := strings.Cut(rest, "\n| "+p.Name+" | ")
		family, _, _ = strings.Cut(family, " |\n")
		cells := strings.Split(family, " | ")
		if call := cells[len(cells)-1]; len(cells) != 7 || strings.HasPrefix(call, "one call") != p.ByCall {
			t.Errorf("%s: transfers are executed by a call %t, and docs/chains.md says %q", p.Name, p.ByCall, family)
		}
		for _, cell := range cells {
			if !sourced.MatchString(cell) {
				t.Errorf("%s: docs/chains.md has no source of %q", p.Name, cell)
			}
		}
	}
	if rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| [0-9]+ \\| `").FindAllString(text, -1); len(rows) != len(profiles) {
		t.Errorf("docs/chains.md has %d chains, of %d", len(rows), len(profiles))
	}
}

// TestComplete: parameters override, a known chain gives the rest, and an unknown chain gets the
// values that every stack had before there were profiles.
func TestComplete(t *testing.T) {
	depth := chain.ConfirmationRule{Depth: 3}
	own := func(window, gwei uint64) stack.Own { return stack.Own{Window: window, FeeLimit: Gwei(gwei)} }
	for why, c := range map[string]struct {
		id           uint64
		known        bool
		chosen, want stack.Config
	}{
		"the chain's own": {8453, true, stack.Config{},
			stack.Config{ByCall: true, ConfirmationRule: finalized, BlockTime: 2 * time.Second, Own: own(16, 1)}},
		"parameters override": {8453, true, stack.Config{ConfirmationRule: depth, BlockTime: time.Minute},
			stack.Config{ByCall: true, ConfirmationRule: depth, BlockTime: time.Minute, Own: own(16, 1)}},
		"one alone": {1, true, stack.Config{BlockTime: time.Minute},
			stack.Config{ByCall: true, ConfirmationRule: finalized, BlockTime: time.Minute, Own: own(64, 200)}},
		"no faster than a second": {42161, true, stack.Config{},
			stack.Config{ConfirmationRule: finalized, BlockTime: time.Second, Own: own(16, 1)}},
		"a chain that is not known": {7, false, stack.Config{},
			stack.Config{ConfirmationRule: safe, BlockTime: 2 * time.Second, Own: own(64, 200)}},
		"anvil": {31337, false, stack.Config{},
			stack.Config{ByCall: true, ConfirmationRule: safe, BlockTime: 2 * time.Second, Own: own(64, 200)}},
	} {
		p, known := Of(c.id)
		if got := p.Complete(c.chosen); got != c.want || known != c.known {
			t.Errorf("%s: got %+v, %t; want %+v, %t", why, got, known, c.want, c.known)
		}
	}
}
