package remit_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"remit/internal/guidetest"
)

// TestGuides holds docs/deploy.md and docs/operate.md against what exists:
// every remit command, make target, stack parameter and output.
func TestGuides(t *testing.T) {
	remit := filepath.Join(t.TempDir(), "remit")
	if out, err := exec.Command("go", "build", "-o", remit, "./cmd/remit").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	var stack struct {
		Parameters map[string]yaml.Node `yaml:"Parameters"`
		Outputs    map[string]yaml.Node `yaml:"Outputs"`
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := yaml.Unmarshal([]byte(read("template.yaml")), &stack); err != nil {
		t.Fatal(err)
	}
	for name := range stack.Parameters {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "[`=]").MatchString(read("docs/deploy.md")) {
			t.Errorf("docs/deploy.md: the table lacks the parameter %s", name)
		}
	}
	makefile := read("Makefile")
	for _, file := range []string{"docs/deploy.md", "docs/operate.md"} {
		text := read(file)
		found := 0
		for _, m := range regexp.MustCompile("(?m)(?:^|`|bin/)remit ((?:wallet|keys|payment|webhooks) [a-z]+|smoke|doctor)((?: --[a-z-]+)*)").FindAllStringSubmatch(text, -1) {
			found++
			help, err := exec.Command(remit, append(strings.Fields(m[1]), "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: remit %s: %v", file, m[1], err)
			}
			for _, flag := range strings.Fields(m[2]) {
				if !strings.Contains(string(help), flag) {
					t.Errorf("%s: remit %s has no %s", file, m[1], flag)
				}
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)").FindAllStringSubmatch(text, -1) {
			found++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", file, m[1])
			}
		}
		for _, m := range regexp.MustCompile("`([A-Z][A-Za-z]+)(?:=[a-z]+)?`").FindAllStringSubmatch(text, -1) {
			found++
			_, parameter := stack.Parameters[m[1]]
			if _, output := stack.Outputs[m[1]]; !parameter && !output && m[1] != "ARGS" {
				t.Errorf("%s: template.yaml has neither parameter nor output %s", file, m[1])
			}
		}
		if found < 8 {
			t.Errorf("%s: only %d things to check were found: has its form changed?", file, found)
		}
	}
}

// printed says of each fenced block which test runs it as it is printed, or why
// none does. A block is named by its page and its beginning, a test by its
// directory and its name.
var printed = []struct{ page, start, by string }{
	{"README.md", "POST /send-payment", "the form of a request"},
	{"README.md", "make run", "serves until Ctrl-C; the tests of cmd/remit run the program that it builds"},
	{"README.md", "KEY=", "internal/merchant TestREADME"},
	{"README.md", `{"tx_hash":`, "internal/merchant TestREADME"},
	{"README.md", "make test", "runs the tests"},
	{"docs/alarms/README.md", "export REMIT_STACK=", definitions},
	{"docs/architecture.md", "flowchart", "a drawing"},
	{"docs/clients.md", "curl ", "internal/merchant TestClientsPage"},
	{"docs/clients.md", "$ make clients", "installs the generators of two languages: run by hand, as CONTRIBUTING.md says"},
	{"docs/deploy.md", "make deploy ENV=dev", account},
	{"docs/deploy.md", "aws secretsmanager put-secret-value", account},
	{"docs/deploy.md", ".cache/bin/remit wallet create --stack remit-dev", "e2e TestOperatorsPages"},
	{"docs/deploy.md", ".cache/bin/remit wallet balance", "e2e TestOperatorsPages"},
	{"docs/deploy.md", "make smoke", account},
	{"docs/deploy.md", "make deploy ENV=staging", account},
	{"docs/deploy.md", ".cache/bin/remit wallet create --stack remit-staging", "e2e TestOperatorsPages"},
	{"docs/deploy.md", "make deploy ENV=prod", account},
	{"docs/deploy.md", "make build", account},
	{"docs/deploy.md", ".cache/venv/bin/sam delete", account},
	{"docs/guarantees.md", "sequenceDiagram", "a drawing"},
	{"docs/operate.md", "remit wallet create", "e2e TestOperatorsPages"},
	{"docs/operate.md", "remit wallet drain", "e2e TestOperatorsPages"},
	{"docs/operate.md", "SECRET=", account},
	{"docs/operate.md", "remit wallet pause", "e2e TestOperatorsPages"},
	{"docs/operate.md", "remit payment show", "e2e TestOperatorsPages"},
	{"docs/operate.md", "remit webhooks failed", "e2e TestOperatorsPages"},
	{"docs/payment-states.md", "stateDiagram", "internal/payment TestDiagram"},
	{"docs/sam-local.md", "tools/local-services", "e2e TestSAMLocal"},
	{"docs/sam-local.md", "export ARCHITECTURE=", container},
	{"docs/sam-local.md", "unset AWS_PROFILE", container},
	{"docs/sam-local.md", "sam local invoke CheckReceiptsFunction", container},
	{"docs/sam-local.md", "sed s/inv-2041/", container},
	{"docs/sam-local.md", "sam local start-api", container},
	{"docs/sam-local.md", "KEY=", container},
	{"docs/tables.md", "aws dynamodb get-item", account},
	{"docs/webhooks.md", "API=", "internal/merchant TestWebhooksPage"},
	{"docs/webhooks.md", "export WEBHOOK_SECRET=", "internal/merchant TestWebhooksPage"},
	{"docs/webhooks.md", "curl -s -X POST", "internal/merchant TestWebhooksPage"},
	{"docs/webhooks.md", `{"id":"evt_…"`, "shortened: openapi.yaml has the whole event, and TestExamples holds it"},
	{"docs/webhooks.md", "package main", "internal/webhook TestReceiversOfThePage"},
	{"docs/webhooks.md", "import json", "internal/webhook TestReceiversOfThePage"},
	{"docs/webhooks.md", "const http", "internal/webhook TestReceiversOfThePage"},
	{"docs/webhooks.md", "go run ./cmd/remit listen", "TestListenInvites of internal/merchant runs the command in its own process"},
}

// Why no test runs some blocks.
const (
	account     = "needs the AWS CLI, or deploys as samconfig.toml says, to an account"
	container   = "starts containers, of which no test has an engine; TestSAMLocal of e2e holds the names in it"
	definitions = "names and functions for the other pages of docs/alarms"
)

// TestBlocksArePrintedAsTheyRun: each block of a page has its row in printed, and
// each row its block and its test.
func TestBlocksArePrintedAsTheyRun(t *testing.T) {
	blocks, err := guidetest.Blocks(".")
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]int{} // blocks by the row
	for _, b := range blocks {
		rows := 0
		for i, row := range printed {
			if b.Page == row.page && strings.HasPrefix(b.Text, row.start) {
				rows++
				used[i]++
			}
		}
		if first, _, _ := strings.Cut(b.Text, "\n"); rows != 1 {
			t.Errorf("%s: %d rows of printed, in guides_test.go, name the block that begins with %q: name it in one row, with the test that runs it or the reason why none does", b.Page, rows, first)
		}
	}
	for i, row := range printed {
		if used[i] != 1 {
			t.Errorf("printed names %d blocks of %s by %q", used[i], row.page, row.start)
		}
		dir, test, _ := strings.Cut(row.by, " ")
		if !regexp.MustCompile(`^Test\w+$`).MatchString(test) {
			continue
		}
		paths, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		var sources []byte
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, text...)
		}
		if !bytes.Contains(sources, []byte("\nfunc "+test+"(")) || !bytes.Contains(sources, []byte(row.page)) {
			t.Errorf("%s: the tests in %s have no %s, or do not read the page", row.page, dir, test)
		}
	}
}

var (
	sentences = regexp.MustCompile(`[.!?]\)? +["(\[]?[A-Z]`)
	counts    = regexp.MustCompile(`(?i)\b([0-9][0-9,]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty) (scenarios|tests|alarms|functions|rules|cases|mutants|routes|endpoints|packages)\b`)
)

// TestPagesAreEasyToChange: a sentence has a line of its own, so that a change of
// it is one line; and no page counts parts of the repository, since the next part
// makes the number wrong. docs/performance.md is written by bench.
func TestPagesAreEasyToChange(t *testing.T) {
	seen := 0
	for path, text := range files(t) {
		if filepath.Ext(path) != ".md" || path != "README.md" && path != "CONTRIBUTING.md" && path != "SECURITY.md" && !strings.HasPrefix(path, "docs/") || path == "docs/performance.md" {
			continue
		}
		fence := false
		for i, line := range strings.Split(string(text), "\n") {
			seen++
			if strings.HasPrefix(line, "```") {
				fence = !fence
			}
			if fence || strings.HasPrefix(line, "#") {
				continue
			}
			if found := counts.FindString(line); found != "" && !strings.HasPrefix(line, "| ") {
				t.Errorf("%s:%d counts %q: leave the number out", path, i+1, found)
			}
			if sentence := regexp.MustCompile(`^ *(\d+\.|\*\*\d+\.)`).ReplaceAllString(line, ""); !strings.HasPrefix(line, "|") && sentences.MatchString(sentence) {
				t.Errorf("%s:%d has two sentences: begin a line with the second", path, i+1)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d lines were read: has the place of the pages changed?", seen)
	}
}
