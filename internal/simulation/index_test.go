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
	"TestEveryReply":                         "a sweep over the classes of reply, of which only some have a rule",
	"TestKeyRotatedWithTransactionsInFlight": "runs look at every wallet in the tables, draining or not; there is no line to take out",
	"TestOneNodeNeverAnswers": "hedges are for speed, and TestOneNodeHangs of package chain holds it; here a " +
		"request that was given up arrives all the same",
	"TestNoopWithoutAnEstimate":    "NoopGas is the floor of every no-op; there is no line to take out",
	"TestTwoProcessesOpenAWallet":  "a wallet that looks like a thief's is left out, and has a record to reserve from all the same",
	"TestANodeThatLagsIsNoDispute": "it holds a count for an alarm, which protects no money",
	"TestEmptiedTables": "emptied tables have lost the registry too, so that no wallet pays with its rule or " +
		"without; TestSeeds finds the rule",
	"TestBatchUnderFaults":    "a batch takes the steps of a payment, whose rules others hold",
	"TestBatchIsAllOrNothing": "the contract makes all transfers or none; there is no line to take out",
	"TestTransfersByCall": "TestWorstCase, TestWorstCaseIsKept and TestExecutesATransfer hold its parts; here " +
		"they meet a chain",
	"TestAllNodesFallBack": "TestRollbackBelowFinality holds the rule; here the nodes fall back above finality",
	"TestMinedIsRemembered": "TestMinedIsNotReadAgain of package settlement holds each condition; here they meet " +
		"other runs and an operator",
	"TestKeyServiceDown":      "a payment is moved where it would reserve, whose rules others hold; here KMS is out of reach",
	"TestRPCForkThatIsHidden": "a round's standing and the question behind its receipts hold it, each alone",
	"TestManyMerchants": "Reconcile falls back to balances alone where counts are refused, and counts are " +
		"within their bound: either is enough",
	"TestPreparedInTheImage":    "mutants of package recovery",
	"TestRecoveryAsksEveryNode": "mutants of packages recovery and chain",
	"TestRecoveryOnAFork":       "mutants of package recovery",
	"TestNodeOnAnotherFork":     "the fork has another block and lacks the receipt: either is enough, and each has a rule",
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
