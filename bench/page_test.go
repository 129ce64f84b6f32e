package main_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "write the measured values and the bills into the pages")

// results are all values of bench/results, by the name of the benchmark and by unit.
type results map[string]map[string][]float64

var processors = regexp.MustCompile(`-\d+$`) // at the end of a benchmark's name

func readResults(t *testing.T) results {
	paths, err := filepath.Glob("results/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no results", err)
	}
	r := results{}
	for _, path := range paths {
		for line := range strings.Lines(string(must.Get(os.ReadFile(path))(t))) {
			words := strings.Fields(line)
			if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
				continue
			}
			name := processors.ReplaceAllString(strings.TrimPrefix(words[0], "Benchmark"), "")
			if r[name] == nil {
				r[name] = map[string][]float64{}
			}
			for pair := range slices.Chunk(words[2:], 2) {
				v, err := strconv.ParseFloat(pair[0], 64)
				if err != nil {
					t.Fatalf("%s: %q: %v", path, line, err)
				}
				r[name][pair[1]] = append(r[name][pair[1]], v)
			}
		}
	}
	return r
}

// value returns the largest median of a unit among the benchmarks of a selector, such as
// Post/clients=64, which names some parts of theirs or their keys; NaN without one.
func (r results) value(selector, unit string) float64 {
	largest := math.NaN()
	for name, units := range r {
		parts, values := strings.Split(name, "/"), slices.Sorted(slices.Values(units[unit]))
		of := func(part string) bool {
			return slices.ContainsFunc(parts, func(p string) bool { return p == part || strings.HasPrefix(p, part+"=") })
		}
		without := slices.ContainsFunc(strings.Split(selector, "/"), func(part string) bool { return !of(part) })
		if !without && len(values) > 0 && !(values[len(values)/2] <= largest) {
			largest = values[len(values)/2]
		}
	}
	return largest
}

// target matches a row of the table of targets: its limit's sign, number and unit, the
// measured value, and which value of the results that is.
var target = regexp.MustCompile("(?m)^(\\| .* \\| ([≤≥]) ([0-9.]+)(.*?) \\| )(.*?)( \\| `(.*)` \\|)$")

// measured returns the page with the measured value of each target, and how many rows it has.
func (r results) measured(page string) (string, int) {
	rows := 0
	return target.ReplaceAllStringFunc(page, func(row string) string {
		rows++
		f := target.FindStringSubmatch(row)
		unit, selector, _ := strings.Cut(f[7], " of ")
		v := r.value(selector, unit)
		limit, _ := strconv.ParseFloat(f[3], 64)
		_, decimals, _ := strings.Cut(f[3], ".")
		text := fmt.Sprintf("%.*f%s", len(decimals), v, f[4])
		if math.IsNaN(v) {
			text = "not measured"
		} else if f[2] == "≤" && v > limit || f[2] == "≥" && v < limit {
			text += ", **missed**"
		}
		return f[1] + text + f[6]
	}), rows
}

// TestThePagesAreOfTheResults: the pages show each target's value from bench/results, bills
// computed from the counts there, and the walls of the plan.
func TestThePagesAreOfTheResults(t *testing.T) {
	r := readResults(t)
	computed := regexp.MustCompile(`(?s)(<!-- computed: (\w+) -->\n).*?(\n<!-- end -->)`)
	tables := map[string]string{"Cost": r.bills(), "Walls": walls()}
	for path, atLeast := range map[string]int{"../docs/performance.md": 23, "../docs/scale.md": 0} {
		page := must.Get(os.ReadFile(path))(t)
		fresh, rows := r.measured(string(page))
		blocks := 0
		fresh = computed.ReplaceAllStringFunc(fresh, func(old string) string {
			blocks++
			f := computed.FindStringSubmatch(old)
			return f[1] + tables[f[2]] + f[3]
		})
		if rows < atLeast || blocks != 1 {
			t.Errorf("%s has %d targets and %d computed blocks", path, rows, blocks)
		}
		switch {
		case *update:
			must.OK(t, os.WriteFile(path, []byte(fresh), 0o644))
		case fresh != string(page):
			t.Errorf("%s is out of date: run go test ./bench -update", path)
		}
	}
}

// TestREADMEQuotesTheResults: README.md's figures are those of the results that `make figures` measures, each at an
// ancestor of this commit that at most 300 commits of product code follow.
func TestREADMEQuotesTheResults(t *testing.T) {
	r := readResults(t)
	r.bills()
	readme, makefile := must.Get(os.ReadFile("../README.md"))(t), must.Get(os.ReadFile("../Makefile"))(t)
	_, table, _ := strings.Cut(string(readme), "\n## Five numbers\n")
	table, _, _ = strings.Cut(table, "\n[")
	digits := func(v float64) string {
		return regexp.MustCompile(`(\d)(\d{3})$`).ReplaceAllString(fmt.Sprintf("%.0f", v), "$1,$2")
	}
	quotes := map[string]string{
		"chaos": fmt.Sprintf("| %s payments through %.0f SIGKILLs",
			digits(r.value("Chaos/happened=payments_asked_for", "count")), r.value("Chaos/happened=kills_of_the_server_(SIGKILL)", "count")),
		"store":   fmt.Sprintf("at 10 million a month | $%.2f; $", r.value("Cost/10 million a month", "Base live")),
		"batches": fmt.Sprintf("; $%.2f in batches of 100; a stack", r.value("Cost/the same in batches of 100", "Base live")),
		"bill":    fmt.Sprintf("with 1,000 payments a month costs $%.2f in all |", r.value("Cost/1,000 a month", "Base live, on demand")/1000),
		"gas": fmt.Sprintf("| %s units; %s each in a batch of 100 |", digits(r.value("Gas/payments=1/recipients=holders", "gas/payment")),
			digits(r.value("Gas/payments=100/recipients=holders", "gas/payment"))),
		"load": fmt.Sprintf("sharing two cores | %s |", digits(r.value("Load/clients=32/wallets=4", "payments/s"))),
		"post": fmt.Sprintf("median time to the 201 | %.0f ms, each database call made 4 ms slower and each node call 50 ms |",
			r.value("Post/store=4ms/rpc=50ms/clients=1/payer=4-wallets", "p50-ms")),
	}
	for name, quote := range quotes {
		if !strings.Contains(table, quote) {
			t.Errorf("README.md does not have the figure of %s: %s", name, quote)
		}
	}
	if rows := strings.Count(table, "\n| "); rows != 7 { // and the head and the ruler
		t.Errorf("README.md has %d rows of figures, and this test knows five: has its form changed?", rows-2)
	}
	delete(quotes, "bill") // of store
	measured := regexp.MustCompile(`(?m)^FIGURES := (.*)$`).FindStringSubmatch(string(makefile))
	quoted, figures := slices.Sorted(maps.Keys(quotes)), slices.Sorted(slices.Values(strings.Fields(measured[1])))
	if !slices.Equal(quoted, figures) {
		t.Errorf("README.md quotes %v, and `make figures` measures %v", quoted, figures)
	}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		t.Log("this copy has no history: the commits of the results are not compared")
		return
	}
	for name := range quotes {
		commit := regexp.MustCompile(`(?m)^commit: ([0-9a-f]{40})$`).FindSubmatch(must.Get(os.ReadFile("results/" + name + ".txt"))(t))
		if commit == nil {
			t.Errorf("results/%s.txt names no commit: run make figures", name)
			continue
		}
		if _, err := git("merge-base", "--is-ancestor", string(commit[1]), "HEAD"); err != nil {
			t.Errorf("results/%s.txt is of %s, which is no ancestor of this commit: run make figures", name, commit[1])
			continue
		}
		count, err := git("rev-list", "--count", string(commit[1])+"..HEAD", "--", ":/functions", ":/internal",
			":/cmd", ":/sdk", ":(top,exclude)*_test.go", ":(top,exclude)internal/house", ":(top,exclude)internal/proof")
		must.OK(t, err)
		if since := must.Get(strconv.Atoi(count))(t); since > 300 {
			t.Errorf("results/%s.txt is %d commits of product code old, 300 at most: run make figures", name, since)
		}
	}
}

// TestThePlanIsOfTheResults: the plan computes with measured values, and package dynamo's number of partitions.
func TestThePlanIsOfTheResults(t *testing.T) {
	measured, planned := reflect.ValueOf(readResults(t).consumption("Store")), reflect.ValueOf(plan.Measured)
	for i := range measured.NumField() {
		if m, p := measured.Field(i).Float(), planned.Field(i).Float(); !(math.Abs(p-m) <= 0.1*m) {
			t.Errorf("%s: %v was measured, and internal/cli/plan has %v", measured.Type().Field(i).Name, m, p)
		}
	}
	if dynamo.ListBuckets != plan.ListBuckets {
		t.Errorf("a list has %d partitions, and internal/cli/plan %d", dynamo.ListBuckets, plan.ListBuckets)
	}
}

// months are the payments and the API keys in use of four customers' months. The last one's bill is shown in full.
var months = []struct {
	name           string
	payments, keys float64
}{{"1,000 a month", 1e3, 3}, {"100,000 a month", 1e5, 20}, {"1 million a month", 1e6, 50}, {"10 million a month", 1e7, 100}}

// Bytes of an entry of a batch: in an answer and in an event, and in hexadecimal in an estimate and in a transaction.
const entryBytes, entryNodeBytes = 2 * 150, 2 * 128

const (
	storeSeconds    = 0.004 // of a round trip to DynamoDB from Lambda in its region, as the benchmarks inject it
	merchantSeconds = 0.100 // until a merchant's endpoint answers
)

// testnet is Base Sepolia, with the profile alone: a minute until a block is final, gas for all and no price.
var testnet = plan.Chain{ID: 84532, BlockGas: math.Inf(1), FinalSeconds: 60, Pool: 1000}

// A basis is how a stack is deployed, and on which chain.
type basis struct {
	name   string
	chain  plan.Chain
	change func(*plan.Deployment)
}

// bases are production on Base in live mode, as samconfig.toml deploys it, and a stack of
// the defaults that has its payments after a minute.
var bases = []basis{
	{"Base live", plan.Chains["base"], production},
	{"Base live, on demand", plan.Chains["base"], func(s *plan.Deployment) { production(s); s.Provisioned = false }},
	{"final after 60 s", testnet, func(s *plan.Deployment) { s.Provisioned = true }},
	{"final after 60 s, on demand", testnet, func(*plan.Deployment) {}},
}

func production(s *plan.Deployment) { s.Provisioned, s.DailyLimit, s.WebhookKey = true, true, true }

// under returns the deployment on a basis under n payments a month of so many keys.
func (b basis) under(n, keys float64) plan.Deployment {
	l := plan.Load{Rate: n / plan.SecondsPerMonth, Merchants: keys, Chain: b.chain, Wallets: 4, Stack: plan.Default}
	_, s := l.Month()
	b.change(&s)
	return s
}

// consumption returns a payment's Consumption, from Store or from Batches.
func (r results) consumption(base string) plan.Consumption {
	get := func(selector, unit string) float64 { return r.value(base+"/"+selector, unit) }
	const unseen = 1 // the look for a delivery that is not stored yet: AWS counts it, DynamoDB Local does not
	p := plan.Consumption{
		Reads:           unseen,
		HookWrites:      get("function=deliver-webhook", "writes"),
		HookReads:       get("function=deliver-webhook", "reads") + get("caller=check-receipts/operation=Query", "reads") + unseen,
		Sends:           r.value("Store/webhook=all", "sends"), // of one message, whatever it is of
		AuthorizerReads: get("function=authorizer", "reads"), PendingReads: get("look=pending_payment", "reads"),
		LookReads: get("look=wallet", "reads"), LookWrites: get("look=wallet", "writes"),
		Stored: get("payment=kept", "bytes"), HookStored: r.value("Store/webhook=kept", "bytes"),
		Items: 4, // payment, hash, delivery, and the list's entry
		Post:  r.value("Post/store=4ms/rpc=50ms/clients=1/payer=4-wallets", "p50-ms") / 1000,
		Get:   2*storeSeconds + plan.WorkSeconds, Auth: storeSeconds + plan.WorkSeconds,
		Hook: 2*storeSeconds + merchantSeconds + plan.WorkSeconds, Work: plan.WorkSeconds,
	}
	for _, function := range []string{"send-payment", "check-receipts", "deliver-webhook", "get-transaction"} {
		p.Writes += get("function="+function, "writes")
		p.Reads += get("function="+function, "reads")
	}
	return p
}

// bills returns the tables of the price of a million payments, on each basis and in months of
// other sizes. It adds the amounts to the results.
func (r results) bills() string {
	p, batch := r.consumption("Store"), r.consumption("Batches")
	text := ""
	table := func(head string) {
		text += "\n| " + head
		for _, b := range bases {
			text += " | " + b.name
		}
		text += " |\n| ---" + strings.Repeat(" | ---:", len(bases)) + " |\n"
	}
	add := func(name string, dollars func(b basis) float64) {
		values := map[string][]float64{}
		text += "| " + name
		for _, b := range bases {
			values[b.name] = []float64{dollars(b)}
			text += fmt.Sprintf(" | %.2f", values[b.name][0])
		}
		r["Cost/"+name] = values
		text += " |\n"
	}
	busiest := months[len(months)-1]
	n := busiest.payments
	table("dollars")
	for i, l := range plan.Default.Bill(1, p) {
		add(l.Name, func(b basis) float64 { return b.under(n, busiest.keys).Bill(n, p)[i].Dollars / n * 1e6 })
	}
	table("a million payments, at")
	for _, m := range months {
		add(m.name, func(b basis) float64 { return b.under(m.payments, m.keys).PerMillion(m.payments, p) })
	}
	same := func(but string, change func(*plan.Deployment)) {
		add("the same"+but, func(b basis) float64 {
			s := b.under(n, busiest.keys)
			change(&s)
			return s.PerMillion(n, p)
		})
	}
	same(" after a year", func(s *plan.Deployment) { s.Months = 12 })
	same(", with an event bus", func(s *plan.Deployment) { s.Bus = true })
	same(", with the wallets' keys in KMS", func(s *plan.Deployment) { s.KMS = true })
	add("the same, each with a reference", func(b basis) float64 {
		referenced := p // its item in the list of the reference, which the commit's transaction puts
		referenced.Writes, referenced.Items, referenced.Stored = p.Writes+2, p.Items+1, p.Stored+150
		return b.under(n, busiest.keys).PerMillion(n, referenced)
	})
	add("the same in batches of 100", func(b basis) float64 {
		s := b.under(n/100, busiest.keys)
		s.OutBytes += 100 * entryBytes
		s.NodeBytes += 100 * entryNodeBytes
		return s.PerMillion(n/100, batch) / 100
	})
	return text
}

// walls returns the table of the payments a second at which a stack of the template's
// defaults meets each limit of the plan, with four wallets and one merchant.
func walls() string {
	text := "\n| limit | raised by | base | polygon | ethereum |\n| --- | --- | ---: | ---: | ---: |\n"
	of := func(chain string) []plan.Wall {
		return plan.Load{Rate: 1, Chain: plan.Chains[chain], Wallets: 4, KMS: true, Stack: plan.Default}.Walls()
	}
	at := func(chain, name string) float64 {
		all := of(chain)
		return all[slices.IndexFunc(all, func(w plan.Wall) bool { return w.Name == name })].At()
	}
	base := of("base")
	slices.SortStableFunc(base, func(v, w plan.Wall) int { return cmp.Compare(v.At(), w.At()) })
	for _, w := range base {
		text += fmt.Sprintf("| %s | %s | %.0f | %.0f | %.0f |\n",
			w.Name, cmp.Or(w.Raise, "nothing"), w.At(), at("polygon", w.Name), at("ethereum", w.Name))
	}
	return text
}

// TestTheBillIsOfTheTemplate: the bill is for a deployment with the template's defaults.
func TestTheBillIsOfTheTemplate(t *testing.T) {
	text := must.Get(os.ReadFile("../template.yaml"))(t)
	var template map[string]any
	must.OK(t, yaml.Unmarshal(text, &template))
	at := func(path string) string { // "" without one; `!Ref X` is the string X
		var v any = template
		for name := range strings.SplitSeq(path, "/") {
			m, _ := v.(map[string]any)
			if v = m[name]; v == nil {
				return ""
			}
		}
		return fmt.Sprint(v)
	}
	d := plan.Default
	want := map[string]string{
		"Parameters/AuthorizerCacheSeconds/Default":  fmt.Sprint(d.CacheSeconds),
		"Parameters/PaymentsCapacityMinimum/Default": fmt.Sprint(d.FloorUnits),
		"Parameters/PaymentsCapacity/Default":        map[bool]string{true: "provisioned", false: "on-demand"}[d.Provisioned],
	}
	for path, want := range want {
		if got := at(path); got != want {
			t.Errorf("%s is %q, and internal/cli/plan has %q", path, got, want)
		}
	}
	for name, gb := range map[string]float64{"SendPayment": d.PostGB, "GetTransaction": d.GetGB, "Authorizer": d.AuthGB,
		"DeliverWebhook": d.HookGB, "CheckReceipts": d.SettleGB, "RefillWallets": d.IdleGB, "ReleaseProposals": d.IdleGB} {
		function := "Resources/" + name + "Function/"
		memory := cmp.Or(at(function+"Properties/MemorySize"), at("Globals/Function/MemorySize"))
		if memory = cmp.Or(at("Parameters/"+memory+"/Default"), memory); at(function+"Type") == "" || memory != fmt.Sprint(1024*gb) {
			t.Errorf("%s has %s MB, and internal/cli/plan %v", name, memory, 1024*gb)
		}
	}
	own, _ := chains.Of(84532) // of docs/deploy.md
	if block := own.Complete(stack.Config{}).BlockTime.Seconds(); block != d.BlockSeconds {
		t.Errorf("Base Sepolia has a block in %v s, and internal/cli/plan %v", block, d.BlockSeconds)
	}
	if alarms := strings.Count(string(text), "AWS::CloudWatch::Alarm"); alarms != int(d.Alarms) {
		t.Errorf("%d alarms, and internal/cli/plan has %v", alarms, d.Alarms)
	}
	metrics := map[string]bool{"RequestsFailed of a version": true}
	for _, m := range regexp.MustCompile(`Namespace: Remit, MetricName: (\w+)|"(OldestProposal)"`).FindAllStringSubmatch(string(text), -1) {
		metrics[m[1]+m[2]] = true
	}
	if len(metrics) != plan.OwnMetrics {
		t.Errorf("%d metrics, and internal/cli/plan has %d", len(metrics), plan.OwnMetrics)
	}
}
