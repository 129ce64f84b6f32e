package main_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// months are the payments and the API keys in use of four customers' months. The last is
// the one whose bill is shown in full.
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
		Post:  r.value("Post/store=4ms/rpc=50ms/clients=1/payer=4-wallets", "p50-ms") / 1000, Get: 2*storeSeconds + plan.WorkSeconds,
		Auth: storeSeconds + plan.WorkSeconds,
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
	add("the same after a year", func(b basis) float64 {
		s := b.under(n, busiest.keys)
		s.Months = 12
		return s.PerMillion(n, p)
	})
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
		"DeliverWebhook": d.HookGB, "CheckReceipts": d.SettleGB, "RefillWallets": d.RefillGB, "ReleaseProposals": d.ReleaseGB} {
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
