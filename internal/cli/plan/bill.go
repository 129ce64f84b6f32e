package plan

import (
	"cmp"
	"math"
)

// Prices in dollars, us-east-1, without any free tier or volume discount, as AWS
// lists them on its pricing pages. The node provider is not among them.
const (
	perRequest    = 3.50 / 1e6    // API Gateway REST API, first 333 million a month
	perInvocation = 0.20 / 1e6    // Lambda requests
	perGBSecond   = 0.0000133334  // Lambda duration on arm64, first 7.5 billion GB-seconds
	perWriteUnit  = 0.625 / 1e6   // DynamoDB on demand
	perReadUnit   = 0.125 / 1e6   // DynamoDB on demand
	perWriteHour  = 0.00065       // DynamoDB provisioned, a write unit a second for an hour
	perReadHour   = 0.00013       // DynamoDB provisioned, a read unit a second for an hour
	perStoredGB   = 0.25 + 0.20   // DynamoDB storage and point-in-time recovery, a month
	perMessage    = 0.40 / 1e6    // SQS requests
	perFair       = 0.10 / 1e6    // SQS requests with a MessageGroupId, beside
	perTrace      = 5.00 / 1e6    // X-Ray traces recorded
	perLogGB      = 0.50          // CloudWatch Logs ingested
	perSecret     = 0.40          // Secrets Manager, a month
	perSecretRead = 0.05 / 10_000 // Secrets Manager API calls
	perKey        = 1.00          // KMS key, a month
	perSchedule   = 1.00 / 1e6    // EventBridge Scheduler invocations
	perAlarm      = 0.10          // CloudWatch standard-resolution alarm, a month
	perMetric     = 0.30          // CloudWatch custom metric, a month
	perDashboard  = 3.00          // CloudWatch, a month
	perGBOut      = 0.09          // data transfer to the internet
	utilisation   = 0.70          // of provisioned units, DynamoDB auto scaling's default target
	itemOverhead  = 100           // bytes DynamoDB charges each stored item for, beside its own
	indexFloor    = 10            // units that the index of the table of payments has at least, when provisioned
	// Connections of Lambda that read a queue at least (AWS Lambda developer guide, "Using Lambda with
	// Amazon SQS").
	pollers = 5
)

const (
	// SecondsPerMonth is the length of a month.
	SecondsPerMonth = 30 * 24 * 3600
	// SampledPerSecond is how many requests each second X-Ray's default rule, and Lambda's
	// own, record first.
	SampledPerSecond = 1.0
	// CoreGB is the memory that comes with a whole core (AWS Lambda developer guide,
	// "Configure Lambda function memory").
	CoreGB = 1769.0 / 1024
	// SampledShare is the share of the others that they record.
	SampledShare = 0.05
	// OwnMetrics are those of a stack in a month in which payments fail and nodes do not
	// answer, but for the ones that each wallet and each node has. A test counts them.
	OwnMetrics = 24
)

// Assumptions that no benchmark can make.
const (
	// WorkSeconds is a function's time, without its round trips.
	WorkSeconds = 0.001

	idleRun  = 0.1 // seconds of a scheduled run that finds nothing
	requests = 2   // of API Gateway, for each payment
	runs     = 60  // seconds between the starts of two runs of check-receipts
	query    = 1   // read units of a query that finds next to nothing, strongly consistent
	kept     = 3   // months that a delivery is kept (webhook.KeptFor)
)

// Consumption is the consumption of one payment: one POST, one GET, one webhook.
type Consumption struct {
	Writes, Reads         float64 // units of send-payment, check-receipts, deliver-webhook and get-transaction together
	HookWrites, HookReads float64 // units among these for the webhook, of its table, which is always on demand
	Sends                 float64 // requests to SQS that queue it
	AuthorizerReads       float64 // units of one look-up of a key
	LookReads, LookWrites float64 // units of one look of check-receipts at a wallet
	PendingReads          float64 // units of one look at a pending payment
	Stored, Items         float64 // bytes and items kept for good
	HookStored            float64 // bytes of the delivery, one item, kept for 90 days
	Post, Get, Auth, Hook float64 // seconds billed of each function on a whole core
	Work                  float64 // seconds of each of these that are its own work, which less of a core slows down
}

// A Deployment is a stack of template.yaml under a month's traffic.
type Deployment struct {
	PostGB, GetGB, AuthGB, HookGB, SettleGB float64 // memory of the functions

	Keys, Wallets              float64 // in use
	CacheSeconds               float64 // of the authorizer's answers
	BlockSeconds, FinalSeconds float64 // between two looks at pending payments, and from the broadcast to the confirmation
	EpochSeconds               float64 // between two moves of the final block; zero: it moves with every look
	Gather                     float64 // seconds that deliver-webhook's queue waits for a batch to fill
	LogBytes, OutBytes         float64 // of a payment: log with two lines of access, and two answers and a webhook to the internet
	Webhooks, DailyLimit       bool
	Provisioned                bool    // the table of payments by the hour, scaled with the load, instead of on demand
	FloorUnits                 float64 // that it has at least, of either kind
	Months                     float64 // of which payments are stored; zero: one
	KMS, WebhookKey            bool    // the keys of the wallets are in KMS; webhook secrets are sealed with a key of the stack's own
	Alarms, Nodes              float64
	TraceReservoir, TraceShare float64 // the API's requests that are traced each second, and the share of the others
	QueueTraced                bool    // deliver-webhook begins traces too, at Lambda's own rate
}

// A Line is one entry of a bill, in dollars a month.
type Line struct {
	Name    string
	Dollars float64
}

// Bill returns the price of a month with n payments.
func (s Deployment) Bill(n float64, p Consumption) []Line {
	rate := n / SecondsPerMonth
	pending := rate * s.FinalSeconds
	busy := 1 - math.Exp(-pending) // payments arrive at random: the share of time in which any is pending
	looks := busy * SecondsPerMonth / s.BlockSeconds
	active := s.Wallets * (1 - math.Exp(-pending/s.Wallets)) / math.Max(busy, 1e-12) // wallets with a pending payment, while any has
	// At random intervals, an answer of the authorizer serves a key's requests for
	// cacheSeconds, and then comes the wait for the next.
	asked := requests * n / (1 + requests*rate/s.Keys*s.CacheSeconds)
	hints := n * (1 - busy) // of payments whose wallet no run has claimed
	webhooks := n
	if !s.Webhooks {
		webhooks = 0
	}
	// A poller takes what has come since its last batch, or its part of what became final at once.
	batches := webhooks / max(1+rate*s.Gather/pollers, min(WebhookBatch, rate*s.EpochSeconds/pollers))

	// Units of the table of payments, and of the others, which are always on demand.
	minutes := float64(SecondsPerMonth) / 60
	writes := n*(p.Writes-p.HookWrites) + looks*active*p.LookWrites + minutes + hints // each run stores when it has compared the wallets
	reads := n*(p.Reads-p.HookReads+Looks(s.FinalSeconds, s.EpochSeconds, s.BlockSeconds)*p.PendingReads) + looks*active*p.LookReads
	if s.EpochSeconds > s.BlockSeconds { // then most looks read nothing but what is new
		reads += looks * active * query
	}
	otherWrites, otherReads := webhooks*p.HookWrites, webhooks*p.HookReads+asked*p.AuthorizerReads
	if s.DailyLimit {
		writes += n
	}
	billed := func(seconds, gb float64) float64 { return (seconds + p.Work*(CoreGB/min(gb, CoreGB)-1)) * gb }
	gbSeconds := n*(billed(p.Post, s.PostGB)+billed(p.Get, s.GetGB)) + asked*billed(p.Auth, s.AuthGB) + batches*billed(p.Hook, s.HookGB) +
		(busy*SecondsPerMonth+(1-busy)*minutes*idleRun)*s.SettleGB
	invocations := requests*n + asked + batches + minutes + hints
	const polls = pollers * 2 * SecondsPerMonth / 20 // of both queues, each lasting 20 s, with or without messages
	traced := traces(requests*n, s.TraceReservoir, s.TraceShare)
	if s.QueueTraced {
		traced += traces(batches, SampledPerSecond, SampledShare)
	}
	months := cmp.Or(s.Months, 1)
	stored := months*(p.Stored-p.HookStored+(p.Items-1)*itemOverhead) + min(months, kept)*(p.HookStored+itemOverhead)
	keys := s.Wallets * perSecret
	if s.KMS {
		keys = s.Wallets * perKey
	}
	if s.WebhookKey {
		keys += perKey
	}
	metrics := OwnMetrics + s.Wallets + 2*s.Nodes
	return []Line{
		{"API Gateway", requests * n * perRequest},
		{"Lambda, duration", gbSeconds * perGBSecond},
		{"Lambda, requests", invocations * perInvocation},
		{"DynamoDB, writes", s.units(writes, perWriteUnit, perWriteHour) + otherWrites*perWriteUnit},
		{"DynamoDB, reads", s.units(reads, perReadUnit, perReadHour) + otherReads*perReadUnit},
		{"DynamoDB, storage", n * stored / 1e9 * perStoredGB},
		{"SQS", (webhooks*p.Sends+2*batches)*(perMessage+perFair) + (3*hints+polls)*perMessage},
		{"logs", n * s.LogBytes / 1e9 * perLogGB},
		{"data out", n * s.OutBytes / 1e9 * perGBOut},
		{"alarms, metrics, secrets, schedule", s.Alarms*perAlarm + metrics*perMetric + perDashboard + perSecret + keys +
			minutes*(perSchedule+perSecretRead)},
		{"X-Ray", traced * perTrace},
	}
}

// Looks returns how many looks, so many seconds apart, read a payment that is final after
// a time: each, or, if the final block moves less often than they come, two until the payment
// is mined, the first of each run, and two whenever it has moved (package settlement).
func Looks(final, epoch, apart float64) float64 {
	return min(final/apart, 2+final/runs+2*final/epoch)
}

// units prices a month's request units of the table of payments.
func (s Deployment) units(n, onDemand, hourly float64) float64 {
	if s.Provisioned {
		return math.Max(n/3600/utilisation, (s.FloorUnits+indexFloor)*SecondsPerMonth/3600) * hourly
	}
	return n * onDemand
}

// traces returns how many of n traces a month are recorded, so many each second
// and a share of the others.
func traces(n, perSecond, share float64) float64 {
	first := math.Min(n, perSecond*SecondsPerMonth)
	return first + (n-first)*share
}

// PerMillion is the total of a bill for a million payments.
func (s Deployment) PerMillion(n float64, p Consumption) (total float64) {
	for _, l := range s.Bill(n, p) {
		total += l.Dollars / n * 1e6
	}
	return total
}
