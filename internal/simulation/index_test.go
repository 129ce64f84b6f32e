package simulation_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// keptFor are the scenarios that docs/guarantees.md names for no rule, each with
// the reason why it is kept.
var keptFor = map[string]string{
	"TestAcknowledgedThenDropped":             "a second witness of resending, for nodes that acknowledge and drop instead of forgetting",
	"TestBothForksMineDifferentAttempts":      "a second witness of asking for receipts of all attempts, across a reorg",
	"TestBumpIsMinedAndTheOriginalAskedFor":   "the other outcome of a bump: here the bump is mined, and every hash must find the payment",
	"TestCatchingUpAfterAnHour":               "a load that one run must settle; no rule exists for its sake",
	"TestClocksTenMinutesApart":               "the rules against wrong clocks fall to seeds, which draw clocks at random; these are the four worst pairs",
	"TestCommittedWhileAllNodesAreDown":       "a second witness of resending, for bytes that no node has ever had",
	"TestCorruptItem":                         "that runs go on after a damaged item is how they are built, not one line that could be taken out",
	"TestDailyLimit":                          "the limit's own rules are those of a store, which storetest has",
	"TestEveryReply":                          "one run for every class of reply, of which only some have a rule",
	"TestEvictedThenThePriceFalls":            "a second witness of resending, under a limit that forbids a bump",
	"TestHandlerFrozenUntilItsPaymentIsFinal": "a sweep over effects and freezes; each combination stands on another rule",
	"TestKeyRotatedWithTransactionsInFlight":  "that runs look at draining wallets is a choice of the list they read",
	"TestLoserOfACommitSendsTheWinnersBytes":  "a second witness of using the winner's bytes, when the winner has not sent them",
	"TestNodeOfAnotherChain":                  "ethrpc holds the rule: here a wrong chain is one more error of a node",
	"TestNonceTooLowFromANodeThatIsAhead":     "the rank of a reply, which is an entry in a table of chain and not a line of its own",
	"TestOldestPending":                       "a number in the report that an alarm reads; no payment depends on it",
	"TestReceiptNullFor45Minutes":             "no code takes a missing receipt for an answer; the scenario keeps it so",
	"TestRecipientOnTheTokensList":            "dispatch's own TestRefusals has every refusal",
	"TestReorgBeforeConfirmationRule":         "a second witness of counting final blocks only, when the block goes for good",
	"TestReplayBeforeRefusal":                 "a second witness of answering with what is stored, for three causes of refusal",
	"TestRetryAfterALostAnswer":               "the plainest use of a key: every rule about keys has a harder witness",
	"TestSecretStoreDownCold":                 "dispatch's own TestRefusals has every refusal",
	"TestThiefUsesAKeyThatIsGone":             "the only scenario of a wallet that can be read and not signed for",
	"TestTwoSettlementsOverlap":               "a sweep over effects and faults of runs; each combination stands on another rule",
}

// TestEveryScenarioIsNeeded holds that each scenario is named in
// docs/guarantees.md as the test that fails without some rule, or has a reason in
// keptFor.
func TestEveryScenarioIsNeeded(t *testing.T) {
	guarantees, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("scenarios_*test.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("files with scenarios: %q, %v", files, err)
	}
	unseen := len(keptFor)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if outer := regexp.MustCompile(`\bt\.(Error|Fatal|Fail)|\bis\(t`).FindAll(text, -1); outer != nil {
			t.Errorf("%s: %q: assert by Scenario.Is or Scenario.T, so that a failure shows its trace", file, outer)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(string(text), -1) {
			reason, excused := keptFor[m[1]]
			if excused {
				unseen--
			}
			if named := strings.Contains(string(guarantees), "`"+m[1]+"`"); named == excused {
				t.Errorf("%s is named by a rule: %t; why it needs none: %q", m[1], named, reason)
			}
		}
	}
	if unseen != 0 {
		t.Errorf("keptFor has %d scenarios too many", unseen)
	}
}
