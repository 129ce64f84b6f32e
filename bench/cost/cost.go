package cost

// Assumptions that no benchmark can make.
const (
	merchantSeconds = 0.100 // until a merchant's endpoint answers
	storeSeconds    = 0.004 // a round trip to DynamoDB from Lambda in its region, as the other benchmarks inject
	rpcSeconds      = 0.050 // a round trip to the node, as the other benchmarks inject
	workSeconds     = 0.001 // of a function's own, beside its round trips
	logBytes        = 2000  // per payment, with two lines of the access log
	outBytes        = 3500  // per payment: two answers of 0.9 kB with headers, and a webhook
	finalSeconds    = 60    // until a block is safe on Base, about
	metrics         = 16    // names of EMF metrics
)

// A Month is a month's traffic.
type Month struct{ Payments, Keys, Wallets float64 }

// Months are the traffic of three customers.
var Months = []Month{{1e3, 3, 4}, {1e5, 20, 4}, {1e7, 100, 4}}

// Under is the stack under a month's traffic.
func (s Stack) Under(m Month) Stack {
	s.Keys, s.Wallets, s.FinalSeconds = m.Keys, m.Wallets, finalSeconds
	s.LogBytes, s.OutBytes, s.Webhooks, s.Metrics = logBytes, outBytes, true, metrics
	return s
}

// Tuned is the stack with every lever that gives nothing up.
func (s Stack) Tuned() Stack {
	for _, l := range Levers {
		if l.Safe {
			l.Change(&s)
		}
	}
	return s
}

// A Lever is a change that an operator can make.
type Lever struct {
	Name   string
	Change func(*Stack)
	Safe   bool // gives up nothing of the promise, nor of the contract
}

// Levers are all changes that docs/performance.md prices.
var Levers = []Lever{
	{"PaymentsCapacity=provisioned, which scales with the load", func(s *Stack) { s.Provisioned = true }, true},
	{"no traces", func(s *Stack) { s.TraceReservoir, s.TraceShare, s.QueueTraced = 0, 0, false }, true},
	{"one request a second traced, and a twentieth of the rest, as X-Ray does by itself", func(s *Stack) { s.TraceReservoir, s.TraceShare = 1, 0.05 }, false},
	{"check-receipts with 1,024 MB", func(s *Stack) { s.SettleGB = 1 }, false},
	{"send-payment with 1,024 MB, the small functions with 512 MB", func(s *Stack) { s.PostGB, s.GetGB, s.AuthorizerGB, s.DeliverGB = 1, 0.5, 0.5, 0.5 }, false},
	{"webhooks gathered for a second, which delays them beyond the contract", func(s *Stack) { s.Gather = 1 }, false},
	{"looking every second block", func(s *Stack) { s.BlockSeconds = 4 }, true},
	{"log level WARN, which loses the metrics", func(s *Stack) { s.LogBytes = 700 }, false},
	{"authorizer cache of 300 s", func(s *Stack) { s.CacheSeconds = 300 }, true},
	{"no authorizer cache", func(s *Stack) { s.CacheSeconds = 0 }, false},
	{"no webhooks", func(s *Stack) { s.Webhooks = false }, false},
	{"a daily limit", func(s *Stack) { s.DailyLimit = true }, false},
	{"final after 10 s instead of 60 s", func(s *Stack) { s.FinalSeconds = 10 }, false},
}

// PaymentOf takes up the results of the store benchmark, by their names and
// units, and the seconds of POST /send-payment that were measured; 0 seconds
// stand for the sum of its round trips.
func PaymentOf(value func(name, unit string) float64, post float64) Payment {
	p := Payment{
		HookWrites: value("Store/function=deliver-webhook", "writes") + 1, HookReads: value("Store/function=deliver-webhook", "reads"), // and the put that announces it
		AuthorizerReads: value("Store/function=authorizer", "reads"), PendingTxReads: value("Store/look=pending_payment", "reads"),
		LookReads: value("Store/look=wallet", "reads"), LookWrites: value("Store/look=wallet", "writes"),
		Stored: value("Store/payment=kept", "bytes"), Items: 4, // payment, hash, delivery, and the list's entry
		Post: post, Get: 2*storeSeconds + workSeconds, Authorizer: storeSeconds + workSeconds,
		Deliver: 2*storeSeconds + merchantSeconds + workSeconds, Work: workSeconds,
	}
	for _, function := range []string{"send-payment", "check-receipts", "deliver-webhook", "get-transaction"} {
		p.Writes += value("Store/function="+function, "writes")
		p.Reads += value("Store/function="+function, "reads")
	}
	if p.Post == 0 {
		p.Post = 2*rpcSeconds + 3*storeSeconds + workSeconds
	}
	return p
}
