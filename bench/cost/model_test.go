package cost

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s = %v; want %v", what, got, want)
	}
}

// line returns an entry of a bill.
func line(t *testing.T, lines []Line, name string) float64 {
	t.Helper()
	for _, l := range lines {
		if l.Name == name {
			return l.Dollars
		}
	}
	t.Fatalf("no line %q", name)
	return 0
}

func bare() Stack {
	return Stack{PostGB: 1, GetGB: 0.5, AuthorizerGB: 0.5, DeliverGB: 0.5, SettleGB: 1, Keys: 1, CacheSeconds: 0,
		Wallets: 4, BlockSeconds: 2, FinalSeconds: 60, Webhooks: true}
}

func TestBillPricesWhatIsPerPayment(t *testing.T) {
	const n = 1e6
	lines := Bill(n, Payment{Stored: 900, Items: 1, Post: 0.1, Get: 0.01}, bare())
	near(t, "API Gateway", line(t, lines, "API Gateway"), 7)      // two million requests
	near(t, "storage", line(t, lines, "DynamoDB, storage"), 0.45) // 1 GB with its overhead
	s := bare()
	s.Webhooks, s.FinalSeconds = false, 0 // nobody posts, nothing is ever pending
	lines = Bill(n, Payment{Post: 0.1, Get: 0.01}, s)
	idle := 43_200 * 0.1 // GB-seconds of runs that find nothing
	near(t, "duration", line(t, lines, "Lambda, duration"), (1e5+5e3+idle)*0.0000133334)
	near(t, "no writes", line(t, lines, "DynamoDB, writes"), 0)
}

func TestBillCountsLooksOnlyWhileSomethingIsPending(t *testing.T) {
	p := Payment{LookWrites: 1, LookReads: 1, PendingTxReads: 0.25}
	busy := Bill(10e6, p, bare()) // about four a second: always something pending, on every wallet
	near(t, "writes of a busy month", line(t, busy, "DynamoDB, writes"), 1_296_000*4*0.625/1e6)
	pending := 10e6 / secondsPerMonth * 60
	near(t, "reads of a busy month", line(t, busy, "DynamoDB, reads"), 1_296_000*(4+pending*0.25)*0.125/1e6)
	rare := Bill(1, p, bare())
	if writes := line(t, rare, "DynamoDB, writes"); writes > 31*0.625/1e6 || writes < 29*0.625/1e6 {
		t.Errorf("one payment costs $%v of looks; want 30 of them, one wallet each", writes)
	}
}

func TestAuthorizerCacheSavesWhatComesWithinIt(t *testing.T) {
	near(t, "no cache", authorized(1e6, 10, 0), 1e6)
	// One key, one request a second: one in 61 asks, with a minute's cache.
	near(t, "a minute", authorized(secondsPerMonth, 1, 60), secondsPerMonth/61.0)
	if rare := authorized(100, 100, 60); rare < 99.9 {
		t.Errorf("%v of 100 rare requests ask; want nearly all", rare)
	}
}

func TestTracesAreSampledBeyondOneASecond(t *testing.T) {
	near(t, "few", traces(1000, 1, 0.05), 1000)
	near(t, "many", traces(secondsPerMonth*3, 1, 0.05), secondsPerMonth+2*secondsPerMonth*0.05)
	near(t, "a share alone", traces(1000, 0, 0.01), 10)
	queue := bare()
	queue.Gather, queue.QueueTraced = 0, true
	near(t, "a queue's batches at Lambda's own rate", line(t, Bill(1e6, Payment{}, queue), "X-Ray"), 5)
}

func TestLessMemoryIsLessOfACore(t *testing.T) {
	s := bare()
	s.Webhooks, s.FinalSeconds = false, 0
	lines := Bill(1e6, Payment{Get: 0.010, Work: 0.002}, s)
	get := 0.010 + 0.002*(1769.0/512-1)
	idle := 43_200 * 0.1
	post := 0.002 * (1769.0/1024 - 1)
	authorizer := 2 * 0.002 * (1769.0/512 - 1) * 0.5 // both requests ask
	near(t, "duration", line(t, lines, "Lambda, duration"), (1e6*(get*0.5+post+authorizer)+idle)*0.0000133334)
}

func TestLevers(t *testing.T) {
	p := Payment{Writes: 10, Reads: 10, Deliver: 0.1}
	base := PerMillion(10e6, p, bare())
	limited := bare()
	limited.DailyLimit = true
	near(t, "a daily limit is one write", PerMillion(10e6, p, limited)-base, 0.625)
	hourly := bare()
	hourly.Provisioned = true
	near(t, "provisioned writes", line(t, Bill(10e6, Payment{Writes: 10}, hourly), "DynamoDB, writes"), 10*10e6/3600/0.7*0.00065)
	quiet := bare()
	quiet.Webhooks = false
	p.HookWrites, p.HookReads = 3, 2
	near(t, "no webhooks save their units, invocations, messages and seconds", base-PerMillion(10e6, p, quiet),
		3*0.625+2*0.125+0.2+3*0.4+0.1*0.5*13.3334)
	gathered := bare()
	gathered.Gather = 5
	batch := 1 + 10e6/secondsPerMonth // five pollers share what comes in five seconds
	near(t, "gathered webhooks save invocations, polls and seconds", base-PerMillion(10e6, p, gathered),
		(1-1/batch)*(0.2+2*0.4+0.1*0.5*13.3334))
}
