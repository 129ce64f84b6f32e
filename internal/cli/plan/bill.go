package plan

import "math"

// Prices in dollars, us-east-1, without free tiers and volume discounts, as AWS's pricing pages list them.
const (
	perRequest                            = 3.50 / 1e6               // API Gateway REST API, first 333 million a month
	perInvocation, perGBSecond            = 0.20 / 1e6, 0.0000133334 // Lambda on arm64, first 7.5 billion GB-seconds
	perWriteUnit, perReadUnit             = 0.625 / 1e6, 0.125 / 1e6 // DynamoDB on demand
	perWriteHour, perReadHour             = 0.00065, 0.00013         // DynamoDB provisioned, a unit a second an hour
	perMessage, perFair                   = 0.40 / 1e6, 0.10 / 1e6   // SQS, and beside it with a MessageGroupId
	perStoredGB, perLogGB, perGBOut       = 0.45, 0.50, 0.09         // DynamoDB with recovery, a month; logs; internet
	perSecret, perSecretRead, perKey      = 0.40, 0.05 / 10_000, 1   // Secrets Manager, a month, a call; KMS, a month
	perSchedule, perEvent                 = 1.00 / 1e6, 1.00 / 1e6   // EventBridge Scheduler; a bus, for 64 KB
	perSignature, perDecrypt              = 0.15 / 1e4, 0.03 / 1e4   // KMS
	perAlarm, perMetric, perDashboard     = 0.10, 0.30, 3.00         // CloudWatch, a month
	utilisation, indexFloor, itemOverhead = 0.70, 10, 100            // DynamoDB's auto scaling; units; bytes of an item
	pollers                               = 5                        // of a queue, each call lasts 20 s (Lambda, SQS)
)

const (
	// SecondsPerMonth is the length of a month.
	SecondsPerMonth = 30 * 24 * 3600
	// OwnMetrics are those of a stack, and that of a version whose requests fail. A test counts them.
	OwnMetrics = 14
	// WorkSeconds is a function's time without its round trips: an assumption.
	WorkSeconds = 0.001

	always, troubled        = 5, 0.1        // of OwnMetrics, those of a stack that is well; hours with the others
	scalingAlarms           = 16            // four for each of the rates that auto scaling follows
	schedules               = 3             // check-receipts, refill-wallets and release-proposals, each minute
	coreGB                  = 1769.0 / 1024 // memory with a whole core ("Configure Lambda function memory")
	idleRun                 = 0.1           // seconds of a scheduled run that finds nothing
	lives                   = 7200          // seconds of a process, assumed: it opens each webhook secret once
	restSeconds, minedLooks = 300, 3        // until a block is final for a run to rest; looks until one is mined
	requests                = 2             // of API Gateway, for each payment
	kept                    = 3             // months that a delivery is kept (webhook.KeptFor)
)

// Consumption is the consumption of one payment: one POST, one GET, one webhook.
type Consumption struct {
	Writes, Reads         float64 // units of all four functions
	HookWrites, HookReads float64 // units among these for the webhook, of its table, which is always on demand
	Sends                 float64 // requests to SQS that queue it
	AuthorizerReads       float64 // units to find a key
	LookReads, LookWrites float64 // units of one look of check-receipts at a wallet
	PendingReads          float64 // units of one look at a pending payment
	Stored, Items         float64 // bytes and items kept for good
	HookStored            float64 // bytes of the delivery, one item, kept for 90 days
	Post, Get, Auth, Hook float64 // seconds billed of each function on a whole core
	Work                  float64 // seconds of each of these that are its own work, which less of a core slows down
}

// A Deployment is a stack of template.yaml under a month's traffic.
type Deployment struct {
	PostGB, GetGB, AuthGB        float64 // memory of the functions
	HookGB, SettleGB             float64
	IdleGB                       float64 // of each of the two that find nothing most times
	Keys, Wallets, Nodes, Alarms float64
	CacheSeconds                 float64 // of the authorizer's answers
	BlockSeconds                 float64 // between two looks at pending payments
	FinalSeconds                 float64 // from the broadcast to the confirmation
	EpochSeconds                 float64 // between two moves of the final block; zero: it moves with every look
	LogBytes, OutBytes           float64 // of a payment: its logs, and two answers and a webhook to the internet
	NodeBytes                    float64 // of a payment, to each node
	Webhooks, DailyLimit         bool
	Bus, KMS                     bool    // an EventBridge bus gets each payment's end; the wallets' keys are in KMS
	WebhookKey                   bool    // of the stack's own, which seals webhook secrets
	Provisioned                  bool    // the table of payments by the hour, scaled with the load
	FloorUnits                   float64 // that it has at least, of either kind
	Months                       float64 // of which payments are stored
}

// A Line is one entry of a bill, in dollars a month.
type Line struct {
	Name    string
	Dollars float64
}

// Bill returns the price of a month with n payments.
func (s Deployment) Bill(n float64, p Consumption) []Line {
	rate, minutes, one := n/SecondsPerMonth, SecondsPerMonth/60.0, map[bool]float64{true: 1}
	pending, watched := rate*s.FinalSeconds, s.FinalSeconds
	if s.FinalSeconds >= restSeconds { // a run ends once all is mined
		watched = minedLooks * s.BlockSeconds
	}
	// Payments arrive at random: busy is the share of time in which any keeps a run going, looks are those at their
	// wallets, and, while none does, two a minute at each that waits for the final block.
	busy := 1 - math.Exp(-rate*watched)
	rests := one[watched < s.FinalSeconds] * (1 - busy) * minutes
	looks := SecondsPerMonth / s.BlockSeconds * busy / max(1-math.Exp(-pending), 1e-12)
	looks = (looks + 2*rests) * s.Wallets * (1 - math.Exp(-pending/s.Wallets))
	// An answer of the authorizer serves a key's requests for CacheSeconds, and then comes the wait for the next.
	asked := requests * n / (1 + requests*rate/s.Keys*s.CacheSeconds)
	hints, webhooks := n*(1-busy), n*one[s.Webhooks]                   // hints of payments that find no run
	again := one[rests > 0] * hints / SecondsPerMonth * s.FinalSeconds // of their runs, which read each pending payment
	// A poller takes each webhook, and event of the bus, as it comes, or its share of an epoch's.
	jobs := webhooks + n*one[s.Bus]
	batches := jobs / max(1, min(webhookBatch, rate*s.EpochSeconds/pollers))
	// For a wallet whose key was not used in the last second, a throwaway message is signed too (keyring.Remote).
	lone := math.Exp(-rate / s.Wallets / max(1, rate*p.Post))
	opened := min(webhooks, pollers*s.Keys*SecondsPerMonth/lives)

	// Units of the table of payments, in which each run stores when it has compared the wallets, and of the others.
	writes := n*(p.Writes-p.HookWrites+one[s.DailyLimit]) + looks*p.LookWrites + minutes + hints
	reads := minutes + // the due proposals
		n*(p.Reads-p.HookReads+(Looks(s.FinalSeconds, s.EpochSeconds, s.BlockSeconds)+again)*p.PendingReads) +
		looks*(p.LookReads+one[s.EpochSeconds > s.BlockSeconds]) // then a query that finds nothing new, most times
	otherWrites, otherReads := webhooks*p.HookWrites, webhooks*p.HookReads+asked*p.AuthorizerReads
	billed := func(n, seconds, gb float64) float64 { return n * (seconds + p.Work*(coreGB/min(gb, coreGB)-1)) * gb }
	gbSeconds := billed(n, p.Post, s.PostGB) + billed(n, p.Get, s.GetGB) + billed(asked, p.Auth, s.AuthGB) +
		billed(batches, p.Hook, s.HookGB) + (busy*SecondsPerMonth+(1-busy)*minutes*idleRun)*s.SettleGB +
		minutes*idleRun*2*s.IdleGB
	stored := s.Months*(p.Stored-p.HookStored+(p.Items-1)*itemOverhead) +
		min(s.Months, kept)*(p.HookStored+itemOverhead)
	return []Line{
		{"API Gateway", requests * n * perRequest},
		{"Lambda, duration", gbSeconds * perGBSecond},
		{"Lambda, requests", (requests*n + asked + batches + schedules*minutes + hints) * perInvocation},
		{"DynamoDB, writes", s.units(writes, perWriteUnit, perWriteHour) + otherWrites*perWriteUnit},
		{"DynamoDB, reads", s.units(reads, perReadUnit, perReadHour) + otherReads*perReadUnit},
		{"DynamoDB, storage", n * stored / 1e9 * perStoredGB},
		{"SQS", (jobs*p.Sends+2*batches)*(perMessage+perFair) + (3*hints+pollers*2*SecondsPerMonth/20)*perMessage},
		{"logs", n * s.LogBytes / 1e9 * perLogGB},
		{"data out", n * (s.OutBytes + s.Nodes*s.NodeBytes) / 1e9 * perGBOut},
		{"alarms", (s.Alarms + scalingAlarms*one[s.Provisioned]) * perAlarm},
		{"metrics", (always + troubled*(OwnMetrics-always)) * perMetric},
		{"dashboard", perDashboard},
		{"KMS", one[s.KMS]*(s.Wallets*perKey+n*(1+lone)*perSignature) + one[s.WebhookKey]*(perKey+opened*perDecrypt)},
		{"EventBridge", (jobs-webhooks)*perEvent + minutes*schedules*perSchedule},
		{"secrets", (1+s.Wallets*one[!s.KMS])*perSecret + minutes*perSecretRead},
	}
}

// Looks returns how many looks read a payment: each, or, if the final block moves less often than they come, two until
// the payment is mined, the first of each minute's run, and two whenever it has moved (package settlement).
func Looks(final, epoch, apart float64) float64 { return min(final/apart, 2+final/60+2*final/epoch) }

func (s Deployment) units(n, onDemand, hourly float64) float64 {
	if s.Provisioned {
		return max(n/3600/utilisation, (s.FloorUnits+indexFloor)*SecondsPerMonth/3600) * hourly
	}
	return n * onDemand
}

// PerMillion is the total of a bill for a million payments.
func (s Deployment) PerMillion(n float64, p Consumption) (total float64) {
	for _, l := range s.Bill(n, p) {
		total += l.Dollars / n * 1e6
	}
	return total
}
