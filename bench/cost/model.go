package cost

import "math"

// A Payment is what one payment consumes wherever it is in the month: one POST,
// one GET, one webhook.
type Payment struct {
	// Counted by the store benchmark, on the units of one payment.
	Writes, Reads   float64 // send-payment, settling, deliver-webhook and get-transaction together
	HookWrites      float64 // what of these is for the webhook
	HookReads       float64
	AuthorizerReads float64 // of one look-up
	LookReads       float64 // of one look of check-receipts, each wallet
	LookWrites      float64
	PendingTxReads  float64 // of one look, each payment pending
	Stored          float64 // bytes kept for good
	Items           float64 // items kept for good

	// Seconds billed of each function on a whole core, measured or summed up from
	// round trips, and what of each is its own work: that takes longer on the part
	// of a core which comes with less memory.
	Post, Get, Authorizer, Deliver float64
	Work                           float64
}

// A Stack is what a template decides.
type Stack struct {
	PostGB, GetGB, AuthorizerGB, DeliverGB, SettleGB float64 // memory of the functions

	Keys         float64 // API keys in use
	CacheSeconds float64 // of the authorizer's answers
	Wallets      float64
	BlockSeconds float64 // between two looks at what is pending
	FinalSeconds float64 // from the broadcast to finality
	Gather       float64 // seconds that deliver-webhook's queue waits for a batch to fill
	LogBytes     float64 // per payment, its two lines of the access log included
	OutBytes     float64 // per payment: two answers and a webhook
	Webhooks     bool
	DailyLimit   bool
	Provisioned  bool    // the table of payments by the hour, scaled with the load, instead of on demand
	FloorUnits   float64 // that it has at least, of either kind
	Alarms       float64
	Metrics      float64

	TraceReservoir float64 // the API's requests that are traced each second
	TraceShare     float64 // and the share of the others
	QueueTraced    bool    // deliver-webhook begins traces too, at Lambda's own rate
}

// A Line is one entry of a bill, in dollars a month.
type Line struct {
	Name    string
	Dollars float64
}

// pollers is how many of Lambda's connections read a queue at least (AWS Lambda
// developer guide, "Using Lambda with Amazon SQS").
const pollers = 5

// requests is how many a payment makes of API Gateway.
const requests = 2

// Bill returns what a month with n payments costs.
func Bill(n float64, p Payment, s Stack) []Line {
	rate := n / secondsPerMonth
	pending := rate * s.FinalSeconds
	busy := 1 - math.Exp(-pending) // payments arrive at random: the share of time in which any is pending
	looks := busy * secondsPerMonth / s.BlockSeconds
	active := s.Wallets * (1 - math.Exp(-pending/s.Wallets)) / math.Max(busy, 1e-12) // wallets with something pending, while any has
	asked := authorized(requests*n, s.Keys, s.CacheSeconds)
	hints := n * (1 - busy) // a payment that finds nobody claiming its wallet
	webhooks := n
	if !s.Webhooks {
		webhooks = 0
	}
	batches := webhooks / (1 + rate*s.Gather/pollers)

	// Of the table of payments, and of the others, which are always on demand.
	writes := n*(p.Writes-p.HookWrites) + looks*active*p.LookWrites
	reads := n*(p.Reads-p.HookReads) + looks*(active*p.LookReads+pending/math.Max(busy, 1e-12)*p.PendingTxReads)
	otherWrites, otherReads := webhooks*p.HookWrites, webhooks*p.HookReads+asked*p.AuthorizerReads
	if s.DailyLimit {
		writes += n
	}
	const idleRun = 0.1 // seconds of a scheduled run that finds nothing
	minutes := float64(secondsPerMonth) / 60
	billed := func(seconds, gb float64) float64 { return (seconds + p.Work*(wholeCoreGB/min(gb, wholeCoreGB)-1)) * gb }
	gbSeconds := n*(billed(p.Post, s.PostGB)+billed(p.Get, s.GetGB)) + asked*billed(p.Authorizer, s.AuthorizerGB) + batches*billed(p.Deliver, s.DeliverGB) +
		(busy*secondsPerMonth+(1-busy)*minutes*idleRun)*s.SettleGB
	invocations := requests*n + asked + batches + minutes + hints
	const polls = pollers * 2 * secondsPerMonth / 20 // of both queues, each lasting 20 s, whatever comes
	messages := webhooks + 2*batches + 3*hints + polls

	lines := []Line{
		{"API Gateway", requests * n * perRequest},
		{"Lambda, duration", gbSeconds * perGBSecond},
		{"Lambda, requests", invocations * perInvocation},
		{"DynamoDB, writes", s.units(writes, perWriteUnit, perWriteHour) + otherWrites*perWriteUnit},
		{"DynamoDB, reads", s.units(reads, perReadUnit, perReadHour) + otherReads*perReadUnit},
		{"DynamoDB, storage", n * (p.Stored + p.Items*itemOverhead) / 1e9 * perStoredGB},
		{"SQS", messages * perMessage},
		{"logs", n * s.LogBytes / 1e9 * perLogGB},
		{"data out", n * s.OutBytes / 1e9 * perGBOut},
		{"alarms, metrics, secrets, schedule", s.Alarms*perAlarm + s.Metrics*perMetric + perDashboard + 2*perSecret +
			minutes*perSchedule + minutes*perSecretRead},
	}
	traced := traces(requests*n, s.TraceReservoir, s.TraceShare)
	if s.QueueTraced {
		traced += traces(batches, sampledPerSecond, sampledShare)
	}
	return append(lines, Line{"X-Ray", traced * perTrace})
}

// units prices a month's request units of the table of payments.
func (s Stack) units(n, onDemand, hourly float64) float64 {
	if s.Provisioned {
		return math.Max(n/3600/utilisation, (s.FloorUnits+indexFloor)*secondsPerMonth/3600) * hourly
	}
	return n * onDemand
}

// indexFloor is what the index of the table of payments has at least.
const indexFloor = 10

// authorized returns how many of n requests a month reach the authorizer, when
// they come at random from so many keys and each answer is kept for some
// seconds: after every call comes that time, and then the wait for a request.
func authorized(n, keys, seconds float64) float64 {
	each := n / secondsPerMonth / keys
	return n / (1 + each*seconds)
}

// traces returns how many of n traces a month are recorded, so many each second
// and a share of the others.
func traces(n, perSecond, share float64) float64 {
	first := math.Min(n, perSecond*secondsPerMonth)
	return first + (n-first)*share
}

// Total adds a bill up.
func Total(lines []Line) float64 {
	total := 0.0
	for _, l := range lines {
		total += l.Dollars
	}
	return total
}

// PerMillion is a bill's total for a million payments.
func PerMillion(n float64, p Payment, s Stack) float64 { return Total(Bill(n, p, s)) / n * 1e6 }
