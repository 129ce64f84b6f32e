package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"remit/internal/chains"
	"remit/internal/plan"
	"remit/internal/stack"
)

// months are the payments and the API keys in use of three customers' months. The last is
// the one whose bill is shown in full.
var months = []struct {
	name           string
	payments, keys float64
}{{"1,000 a month", 1e3, 3}, {"100,000 a month", 1e5, 20}, {"10 million a month", 1e7, 100}}

// entryBytes is an entry of a batch in an answer and in an event.
const entryBytes = 2 * 150

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
	{"final after 60 s", plan.Of(84532), func(s *plan.Deployment) { s.Provisioned = true }},
	{"final after 60 s, on demand", plan.Of(84532), func(*plan.Deployment) {}},
}

func production(s *plan.Deployment) { s.Provisioned, s.DailyLimit, s.WebhookKey = true, true, true }

// under returns the deployment on a basis under n payments a month of so many keys.
func (b basis) under(s plan.Deployment, n, keys float64) plan.Deployment {
	l := plan.Load{Rate: n / plan.SecondsPerMonth, Merchants: keys, Chain: b.chain, Wallets: 4, Stack: s}
	_, s = l.Month()
	b.change(&s)
	return s
}

// A lever is a change that an operator can make.
type lever struct {
	name   string
	change func(*plan.Deployment)
	safe   bool // gives up nothing of the promise, nor of the contract
}

var levers = []lever{
	{"no traces", func(s *plan.Deployment) { s.TraceReservoir, s.TraceShare, s.QueueTraced = 0, 0, false }, true},
	{"one request a second traced, and a twentieth of the rest, as X-Ray does by itself", func(s *plan.Deployment) { s.TraceReservoir, s.TraceShare = 1, 0.05 }, false},
	{"check-receipts with 256 MB", func(s *plan.Deployment) { s.SettleGB = 0.25 }, false},
	{"send-payment with 256 MB", func(s *plan.Deployment) { s.PostGB = 0.25 }, false},
	{"send-payment with 1,024 MB, the small functions with 512 MB", func(s *plan.Deployment) { s.PostGB, s.GetGB, s.AuthGB, s.HookGB = 1, 0.5, 0.5, 0.5 }, false},
	{"webhooks gathered for a second, which delays them beyond the contract", func(s *plan.Deployment) { s.Gather = 1 }, false},
	{"looking half as often", func(s *plan.Deployment) { s.BlockSeconds *= 2 }, true},
	{"log level WARN, which loses the metrics", func(s *plan.Deployment) { s.LogBytes = 700 }, false},
	{"authorizer cache of 300 s", func(s *plan.Deployment) { s.CacheSeconds = 300 }, true},
	{"no authorizer cache", func(s *plan.Deployment) { s.CacheSeconds = 0 }, false},
	{"no webhooks", func(s *plan.Deployment) { s.Webhooks = false }, false},
	{"no daily limit", func(s *plan.Deployment) { s.DailyLimit = false }, false},
}

// calls are counted calls of a payment that a target may lack, with what it would take to
// do without each.
var calls = []struct {
	name string
	drop func(*plan.Consumption)
}{
	{"the release of a reservation: a write", func(p *plan.Consumption) { p.Writes-- }},
	{"the status in the list: a write", func(p *plan.Consumption) { p.Writes-- }},
	{"the second kilobyte of a delivery: a write", func(p *plan.Consumption) { p.Writes--; p.HookWrites-- }},
	{"the question for a merchant's endpoints: a read", func(p *plan.Consumption) { p.Reads--; p.HookReads-- }},
	{"the question for a delivery before it is stored: a read", func(p *plan.Consumption) { p.Reads--; p.HookReads-- }},
}

// consumption takes up the results of the benchmarks: those of Store, or of Batches.
func (r *results) consumption(base string) plan.Consumption {
	get := func(selector, unit string) float64 { return r.value(base+"/"+selector, unit) }
	const unseen = 1 // the look for a delivery that is not stored yet: AWS counts it, DynamoDB Local does not
	p := plan.Consumption{
		Reads:      unseen,
		HookWrites: get("function=deliver-webhook", "writes"), HookReads: get("function=deliver-webhook", "reads") + get("caller=check-receipts/operation=Query", "reads") + unseen,
		Sends:           r.value("Store/webhook=all", "sends"), // of one message, whatever it is of
		AuthorizerReads: get("function=authorizer", "reads"), PendingReads: get("look=pending_payment", "reads"),
		LookReads: get("look=wallet", "reads"), LookWrites: get("look=wallet", "writes"),
		Stored: get("payment=kept", "bytes"), HookStored: r.value("Store/webhook=kept", "bytes"), Items: 4, // payment, hash, delivery, and the list's entry
		Post: r.value("Post/store=4ms/rpc=50ms/clients=1/payer=4-wallets", "p50-ms") / 1000, Get: 2*plan.StoreSeconds + plan.WorkSeconds, Auth: plan.StoreSeconds + plan.WorkSeconds,
		Hook: 2*plan.StoreSeconds + plan.MerchantSeconds + plan.WorkSeconds, Work: plan.WorkSeconds,
	}
	for _, function := range []string{"send-payment", "check-receipts", "deliver-webhook", "get-transaction"} {
		p.Writes += get("function="+function, "writes")
		p.Reads += get("function="+function, "reads")
	}
	return p
}

// addCost adds rows for the bill of a million payments on each basis, for the change that
// each lever makes, and for months of other sizes.
func (r *results) addCost(deployed plan.Deployment) {
	p, batch := r.consumption("Store"), r.consumption("Batches")
	add := func(name string, dollars func(b basis) float64) {
		columns := map[string]float64{}
		for _, b := range bases {
			columns[b.name] = dollars(b)
		}
		r.rows = append(r.rows, newRow("Cost/"+name, columns))
	}
	busiest := months[len(months)-1]
	n := busiest.payments
	priced := func(b basis, p plan.Consumption, chosen ...lever) float64 {
		s := b.under(deployed, n, busiest.keys)
		for _, l := range chosen {
			l.change(&s)
		}
		return s.PerMillion(n, p)
	}
	million := func(b basis, chosen ...lever) float64 { return priced(b, p, chosen...) }
	for i, l := range deployed.Bill(1, p) {
		add("dollars="+l.Name, func(b basis) float64 { return b.under(deployed, n, busiest.keys).Bill(n, p)[i].Dollars / n * 1e6 })
	}
	for _, l := range levers {
		add("lever="+l.name, func(b basis) float64 { return million(b, l) - million(b) })
	}
	least := p
	for _, c := range calls {
		fewer := p
		c.drop(&fewer)
		c.drop(&least)
		add("without="+c.name, func(b basis) float64 { return priced(b, fewer) - million(b) })
	}
	for _, m := range months {
		add("million="+m.name, func(b basis) float64 { return b.under(deployed, m.payments, m.keys).PerMillion(m.payments, p) })
	}
	add("million=the same after a year", func(b basis) float64 { return million(b, lever{change: func(s *plan.Deployment) { s.Months = 12 }}) })
	add("million=the same in batches of 100", func(b basis) float64 {
		s := b.under(deployed, n/100, busiest.keys)
		s.OutBytes += 100 * entryBytes
		return s.PerMillion(n/100, batch) / 100
	})
	safe := slices.DeleteFunc(slices.Clone(levers), func(l lever) bool { return !l.safe })
	add("million=the same with every lever that gives nothing up", func(b basis) float64 { return million(b, safe...) })
	small := slices.DeleteFunc(slices.Clone(levers), func(l lever) bool { return !strings.HasSuffix(l.name, " with 256 MB") })
	add("million=the same without these calls, in 256 MB", func(b basis) float64 { return priced(b, least, small...) })
}

// addWalls adds a row for each limit of the plan: the payments a second at which a stack
// of the template's defaults meets it, with four wallets and one merchant.
func (r *results) addWalls(deployed plan.Deployment) {
	at := map[string]map[string]float64{}
	for name, chain := range plan.Chains {
		l := plan.Load{Rate: 1, Chain: chain, Wallets: 4, KMS: true, Stack: deployed}
		for _, w := range l.Walls() {
			key := "Walls/wall=" + w.Name + "/moved_by=" + cmp.Or(w.Raise, "nothing")
			if at[key] == nil {
				at[key] = map[string]float64{}
			}
			at[key][name] = w.At()
		}
	}
	keys := slices.SortedFunc(maps.Keys(at), func(a, b string) int {
		return cmp.Or(cmp.Compare(at[a]["base"], at[b]["base"]), strings.Compare(a, b))
	})
	for _, key := range keys {
		r.rows = append(r.rows, newRow(key, at[key]))
	}
}

// errTemplate reports that a template does not hold a value that a bill depends
// on.
var errTemplate = errors.New("the template does not say")

// A template is template.yaml. An intrinsic function is its arguments: `!Ref X` is
// the string X.
type template struct {
	all  map[string]any
	errs []error // of the values that it lacks
}

// parse returns the deployment of a template by its defaults, without traffic.
func parse(text []byte) (plan.Deployment, error) {
	t := &template{}
	if err := yaml.Unmarshal(text, &t.all); err != nil {
		return plan.Deployment{}, fmt.Errorf("reading the template: %w", err)
	}
	own, _ := chains.Of(uint64(t.parameter("ChainId")))
	s := plan.Deployment{
		PostGB: t.gb("SendPayment"), GetGB: t.gb("GetTransaction"), AuthGB: t.gb("Authorizer"), HookGB: t.gb("DeliverWebhook"), SettleGB: t.gb("CheckReceipts"),
		CacheSeconds: t.parameter("AuthorizerCacheSeconds"), BlockSeconds: own.Complete(stack.Config{}).BlockTime.Seconds(), FloorUnits: t.parameter("PaymentsCapacityMinimum"),
		TraceShare: plan.SampledShare, TraceReservoir: plan.SampledPerSecond,
		Provisioned: t.at("Parameters/PaymentsCapacity/Default") == "provisioned",
		QueueTraced: t.at("Resources/DeliverWebhookFunction/Properties/Tracing") == "Active",
	}
	if t.at("Parameters/TraceShare/Default") != "none" {
		s.TraceShare, s.TraceReservoir = t.parameter("TraceShare"), 0
	}
	s.Gather, _ = strconv.ParseFloat(t.at("Resources/DeliverWebhookFunction/Properties/Events/Job/Properties/MaximumBatchingWindowInSeconds"), 64)
	resources, _ := t.all["Resources"].(map[string]any)
	for name := range resources {
		if t.at("Resources/"+name+"/Type") == "AWS::CloudWatch::Alarm" {
			s.Alarms++
		}
	}
	if err := errors.Join(t.errs...); err != nil {
		return s, fmt.Errorf("%w: %w", errTemplate, err)
	}
	return s, nil
}

// parameter returns a parameter's default, which is a number or a duration, in
// seconds.
func (t *template) parameter(name string) float64 {
	text := t.at("Parameters/" + name + "/Default")
	d, err := time.ParseDuration(strings.TrimSuffix(text, "s") + "s") // a number is seconds too
	t.errs = append(t.errs, err)
	return d.Seconds()
}

// gb returns the memory of a function.
func (t *template) gb(function string) float64 {
	memory := t.at("Resources/" + function + "Function/Properties/MemorySize")
	if memory == "" && t.at("Resources/"+function+"Function") != "" {
		memory = t.at("Globals/Function/MemorySize")
	}
	memory = cmp.Or(t.at("Parameters/"+memory+"/Default"), memory) // of a !Ref
	mb, err := strconv.ParseFloat(memory, 64)
	t.errs = append(t.errs, err)
	return mb / 1024
}

// at returns the value at a path, "" without one.
func (t *template) at(path string) string {
	var v any = t.all
	for name := range strings.SplitSeq(path, "/") {
		m, _ := v.(map[string]any)
		if v = m[name]; v == nil {
			return ""
		}
	}
	return fmt.Sprint(v)
}
