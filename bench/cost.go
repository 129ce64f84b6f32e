package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"remit/internal/chains"
	"remit/internal/stack"
)

// Prices in dollars, us-east-1, without any free tier or volume discount, as AWS
// lists them on its pricing pages. The node provider is not among them.
const (
	perRequest       = 3.50 / 1e6     // API Gateway REST API, first 333 million a month
	perInvocation    = 0.20 / 1e6     // Lambda requests
	perGBSecond      = 0.0000133334   // Lambda duration on arm64, first 7.5 billion GB-seconds
	perWriteUnit     = 0.625 / 1e6    // DynamoDB on demand
	perReadUnit      = 0.125 / 1e6    // DynamoDB on demand
	perWriteHour     = 0.00065        // DynamoDB provisioned, a write unit a second for an hour
	perReadHour      = 0.00013        // DynamoDB provisioned, a read unit a second for an hour
	perStoredGB      = 0.25 + 0.20    // DynamoDB storage and point-in-time recovery, a month
	perMessage       = 0.40 / 1e6     // SQS requests
	perTrace         = 5.00 / 1e6     // X-Ray traces recorded
	perLogGB         = 0.50           // CloudWatch Logs ingested
	perSecret        = 0.40           // Secrets Manager, a month
	perSecretRead    = 0.05 / 10_000  // Secrets Manager API calls
	perSchedule      = 1.00 / 1e6     // EventBridge Scheduler invocations
	perAlarm         = 0.10           // CloudWatch standard-resolution alarm, a month
	perMetric        = 0.30           // CloudWatch custom metric, a month
	perDashboard     = 3.00           // CloudWatch, a month
	perGBOut         = 0.09           // data transfer to the internet
	secondsPerMonth  = 30 * 24 * 3600 //
	sampledPerSecond = 1.0            // X-Ray's default rule, and Lambda's own, record the first request each second
	sampledShare     = 0.05           // and this share of the others
	wholeCoreGB      = 1769.0 / 1024  // memory that comes with a whole core (AWS Lambda developer guide, "Configure Lambda function memory")
	utilisation      = 0.70           // of provisioned units, DynamoDB auto scaling's default target
	itemOverhead     = 100            // bytes DynamoDB charges each stored item for, beside its own
	indexFloor       = 10             // units that the index of the table of payments has at least, when provisioned
	pollers          = 5              // connections of Lambda that read a queue at least (AWS Lambda developer guide, "Using Lambda with Amazon SQS")
)

// Assumptions that no benchmark can make.
const (
	merchantSeconds = 0.100 // until a merchant's endpoint answers
	storeSeconds    = 0.004 // a round trip to DynamoDB from Lambda in its region, as the benchmarks inject
	workSeconds     = 0.001 // of a function's own, beside its round trips
	idleRun         = 0.1   // seconds of a scheduled run that finds nothing
	requests        = 2     // of API Gateway, for each payment
)

// consumption is what one payment consumes, wherever it is in the month: one POST,
// one GET, one webhook.
type consumption struct {
	writes, reads         float64 // units of send-payment, check-receipts, deliver-webhook and get-transaction together
	hookWrites, hookReads float64 // units among these for the webhook
	authorizerReads       float64 // units of one look-up of a key
	lookReads, lookWrites float64 // units of one look of check-receipts at a wallet
	pendingReads          float64 // units of one look at a pending payment
	stored, items         float64 // bytes and items kept for good
	post, get, auth, hook float64 // seconds billed of each function on a whole core
	work                  float64 // seconds of each of these that are its own work, which less of a core slows down
}

// A deployment is a stack of template.yaml under a month's traffic.
type deployment struct {
	postGB, getGB, authGB, hookGB, settleGB float64 // memory of the functions

	keys, wallets              float64 // in use
	cacheSeconds               float64 // of the authorizer's answers
	blockSeconds, finalSeconds float64 // between two looks at pending payments, and from the broadcast to the confirmation
	gather                     float64 // seconds that deliver-webhook's queue waits for a batch to fill
	logBytes, outBytes         float64 // of a payment: log with two lines of access, and two answers and a webhook to the internet
	webhooks, dailyLimit       bool
	provisioned                bool    // the table of payments by the hour, scaled with the load, instead of on demand
	floorUnits                 float64 // that it has at least, of either kind
	alarms, metrics            float64
	traceReservoir, traceShare float64 // the API's requests that are traced each second, and the share of the others
	queueTraced                bool    // deliver-webhook begins traces too, at Lambda's own rate
}

// months are the payments and the API keys in use of three customers' months.
var months = []struct{ payments, keys float64 }{{1e3, 3}, {1e5, 20}, {1e7, 100}}

// under returns the deployment under the traffic of so many keys.
func (s deployment) under(keys float64) deployment {
	s.keys, s.wallets, s.finalSeconds, s.logBytes, s.outBytes, s.webhooks, s.metrics = keys, 4, 60, 2000, 3500, true, 16
	return s
}

// A lever is a change that an operator can make.
type lever struct {
	name   string
	change func(*deployment)
	safe   bool // gives up nothing of the promise, nor of the contract
}

var levers = []lever{
	{"PaymentsCapacity=provisioned, which scales with the load", func(s *deployment) { s.provisioned = true }, true},
	{"no traces", func(s *deployment) { s.traceReservoir, s.traceShare, s.queueTraced = 0, 0, false }, true},
	{"one request a second traced, and a twentieth of the rest, as X-Ray does by itself", func(s *deployment) { s.traceReservoir, s.traceShare = 1, 0.05 }, false},
	{"check-receipts with 1,024 MB", func(s *deployment) { s.settleGB = 1 }, false},
	{"send-payment with 1,024 MB, the small functions with 512 MB", func(s *deployment) { s.postGB, s.getGB, s.authGB, s.hookGB = 1, 0.5, 0.5, 0.5 }, false},
	{"webhooks gathered for a second, which delays them beyond the contract", func(s *deployment) { s.gather = 1 }, false},
	{"looking every second block", func(s *deployment) { s.blockSeconds = 4 }, true},
	{"log level WARN, which loses the metrics", func(s *deployment) { s.logBytes = 700 }, false},
	{"authorizer cache of 300 s", func(s *deployment) { s.cacheSeconds = 300 }, true},
	{"no authorizer cache", func(s *deployment) { s.cacheSeconds = 0 }, false},
	{"no webhooks", func(s *deployment) { s.webhooks = false }, false},
	{"a daily limit", func(s *deployment) { s.dailyLimit = true }, false},
	{"final after 10 s instead of 60 s", func(s *deployment) { s.finalSeconds = 10 }, false},
}

// A line is one entry of a bill, in dollars a month.
type line struct {
	name    string
	dollars float64
}

// bill returns the price of a month with n payments.
func bill(n float64, p consumption, s deployment) []line {
	rate := n / secondsPerMonth
	pending := rate * s.finalSeconds
	busy := 1 - math.Exp(-pending) // payments arrive at random: the share of time in which any is pending
	looks := busy * secondsPerMonth / s.blockSeconds
	active := s.wallets * (1 - math.Exp(-pending/s.wallets)) / math.Max(busy, 1e-12) // wallets with a pending payment, while any has
	// At random intervals, an answer of the authorizer serves a key's requests for
	// cacheSeconds, and then comes the wait for the next.
	asked := requests * n / (1 + requests*rate/s.keys*s.cacheSeconds)
	hints := n * (1 - busy) // of payments whose wallet no run has claimed
	webhooks := n
	if !s.webhooks {
		webhooks = 0
	}
	batches := webhooks / (1 + rate*s.gather/pollers)

	// Units of the table of payments, and of the others, which are always on demand.
	minutes := float64(secondsPerMonth) / 60
	writes := n*(p.writes-p.hookWrites) + looks*active*p.lookWrites + minutes + hints // each run stores when it has compared the wallets
	reads := n*(p.reads-p.hookReads) + looks*(active*p.lookReads+pending/math.Max(busy, 1e-12)*p.pendingReads)
	otherWrites, otherReads := webhooks*p.hookWrites, webhooks*p.hookReads+asked*p.authorizerReads
	if s.dailyLimit {
		writes += n
	}
	billed := func(seconds, gb float64) float64 { return (seconds + p.work*(wholeCoreGB/min(gb, wholeCoreGB)-1)) * gb }
	gbSeconds := n*(billed(p.post, s.postGB)+billed(p.get, s.getGB)) + asked*billed(p.auth, s.authGB) + batches*billed(p.hook, s.hookGB) +
		(busy*secondsPerMonth+(1-busy)*minutes*idleRun)*s.settleGB
	invocations := requests*n + asked + batches + minutes + hints
	const polls = pollers * 2 * secondsPerMonth / 20 // of both queues, each lasting 20 s, with or without messages
	traced := traces(requests*n, s.traceReservoir, s.traceShare)
	if s.queueTraced {
		traced += traces(batches, sampledPerSecond, sampledShare)
	}
	return []line{
		{"API Gateway", requests * n * perRequest},
		{"Lambda, duration", gbSeconds * perGBSecond},
		{"Lambda, requests", invocations * perInvocation},
		{"DynamoDB, writes", s.units(writes, perWriteUnit, perWriteHour) + otherWrites*perWriteUnit},
		{"DynamoDB, reads", s.units(reads, perReadUnit, perReadHour) + otherReads*perReadUnit},
		{"DynamoDB, storage", n * (p.stored + p.items*itemOverhead) / 1e9 * perStoredGB},
		{"SQS", (webhooks + 2*batches + 3*hints + polls) * perMessage},
		{"logs", n * s.logBytes / 1e9 * perLogGB},
		{"data out", n * s.outBytes / 1e9 * perGBOut},
		{"alarms, metrics, secrets, schedule", s.alarms*perAlarm + s.metrics*perMetric + perDashboard + 2*perSecret + minutes*(perSchedule+perSecretRead)},
		{"X-Ray", traced * perTrace},
	}
}

// units prices a month's request units of the table of payments.
func (s deployment) units(n, onDemand, hourly float64) float64 {
	if s.provisioned {
		return math.Max(n/3600/utilisation, (s.floorUnits+indexFloor)*secondsPerMonth/3600) * hourly
	}
	return n * onDemand
}

// traces returns how many of n traces a month are recorded, so many each second
// and a share of the others.
func traces(n, perSecond, share float64) float64 {
	first := math.Min(n, perSecond*secondsPerMonth)
	return first + (n-first)*share
}

// perMillion is the total of a bill for a million payments.
func perMillion(n float64, p consumption, s deployment) (total float64) {
	for _, l := range bill(n, p, s) {
		total += l.dollars / n * 1e6
	}
	return total
}

// consumption takes up the results of the benchmarks.
func (r *results) consumption() consumption {
	get := func(selector, unit string) float64 { return r.value("Store/"+selector, unit) }
	p := consumption{
		hookWrites: get("function=deliver-webhook", "writes") + 1, hookReads: get("function=deliver-webhook", "reads"), // with the put that announces it
		authorizerReads: get("function=authorizer", "reads"), pendingReads: get("look=pending_payment", "reads"),
		lookReads: get("look=wallet", "reads"), lookWrites: get("look=wallet", "writes"),
		stored: get("payment=kept", "bytes"), items: 4, // payment, hash, delivery, and the list's entry
		post: r.value("Post/store=4ms/rpc=50ms/clients=1/payer=4-wallets", "p50-ms") / 1000, get: 2*storeSeconds + workSeconds, auth: storeSeconds + workSeconds,
		hook: 2*storeSeconds + merchantSeconds + workSeconds, work: workSeconds,
	}
	for _, function := range []string{"send-payment", "check-receipts", "deliver-webhook", "get-transaction"} {
		p.writes += get("function="+function, "writes")
		p.reads += get("function="+function, "reads")
	}
	return p
}

// addCost adds rows for the bills of a deployment at three sizes of month, and for
// the change that each lever makes.
func (r *results) addCost(deployed deployment) {
	p := r.consumption()
	add := func(name string, dollars func(n float64, s deployment) float64) {
		columns := map[string]float64{}
		for _, month := range months {
			columns[fmt.Sprintf("at %.0f a month", month.payments)] = dollars(month.payments, deployed.under(month.keys))
		}
		r.rows = append(r.rows, newRow("Cost/"+name, columns))
	}
	for i, l := range bill(1, p, deployed.under(1)) {
		add("dollars="+l.name, func(n float64, s deployment) float64 { return bill(n, p, s)[i].dollars })
	}
	tuned := func(n float64, s deployment, chosen ...lever) float64 {
		for _, l := range chosen {
			l.change(&s)
		}
		return perMillion(n, p, s)
	}
	for _, l := range levers {
		add("lever="+l.name, func(n float64, s deployment) float64 { return tuned(n, s, l) - tuned(n, s) })
	}
	add("million=as deployed by default", func(n float64, s deployment) float64 { return tuned(n, s) })
	safe := slices.DeleteFunc(slices.Clone(levers), func(l lever) bool { return !l.safe })
	add("million=with every lever that gives nothing up", func(n float64, s deployment) float64 { return tuned(n, s, safe...) })
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
func parse(text []byte) (deployment, error) {
	t := &template{}
	if err := yaml.Unmarshal(text, &t.all); err != nil {
		return deployment{}, fmt.Errorf("reading the template: %w", err)
	}
	own, _ := chains.Of(uint64(t.parameter("ChainId")))
	s := deployment{
		postGB: t.gb("SendPayment"), getGB: t.gb("GetTransaction"), authGB: t.gb("Authorizer"), hookGB: t.gb("DeliverWebhook"), settleGB: t.gb("CheckReceipts"),
		cacheSeconds: t.parameter("AuthorizerCacheSeconds"), blockSeconds: own.Complete(stack.Config{}).BlockTime.Seconds(), floorUnits: t.parameter("PaymentsCapacityMinimum"),
		dailyLimit: t.parameter("DailyLimit") > 0, traceShare: sampledShare, traceReservoir: sampledPerSecond,
		provisioned: t.at("Parameters/PaymentsCapacity/Default") == "provisioned",
		queueTraced: t.at("Resources/DeliverWebhookFunction/Properties/Tracing") == "Active",
	}
	if t.at("Parameters/TraceRule/Default") == "true" {
		s.traceShare, s.traceReservoir = t.parameter("TraceShare"), t.parameter("TraceReservoir")
	}
	s.gather, _ = strconv.ParseFloat(t.at("Resources/DeliverWebhookFunction/Properties/Events/Job/Properties/MaximumBatchingWindowInSeconds"), 64)
	resources, _ := t.all["Resources"].(map[string]any)
	for name := range resources {
		if t.at("Resources/"+name+"/Type") == "AWS::CloudWatch::Alarm" {
			s.alarms++
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
