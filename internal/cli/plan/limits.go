// Package plan computes the wallets, calls and dollars that a rate of payments needs. It queries no service.
package plan

// Limits of AWS, in regions with its usual defaults. Those of DynamoDB are a second, from its developer guide: of one
// partition ("Best practices for designing and using partition keys effectively"), of a new table on demand ("initial
// throughput"), of any ("table-level throughput"). A wallet's 8,000 payments take 600 of a partition's 3,000 reads.
const (
	partitionWrites = 1000
	newTableWrites  = 4000
	tableUnits      = 40_000
	gatewayRate     = 10_000 // requests a second (API Gateway developer guide, "Quotas"; 2,500 in some regions)
	signatures      = 300    // a second, of elliptic curves (KMS developer guide, "Request quotas"; some regions: more)
	mostGB          = 10     // memory of a function (Lambda developer guide, "Configure Lambda function memory")
	environments    = 1000   // at once (Lambda developer guide, "Lambda quotas"; a new account may have less)
)

// Numbers of Remit's own design. Measured: 20 µs to decode each of 400 items; 632 bytes for each of 100,000 pending
// payments, twice while they are read again, and half as much for the garbage collector; 150 MB to end 10,000 at once.
const (
	listWrites     = 2      // units that a payment writes to one of them: its commit and its end
	endpointWrites = 2      // units of a webhook in its endpoint's log: stored, and recorded
	settleSeconds  = 0.0007 // of a core to end a payment, assumed: half of the processor time in docs/performance.md
	pendingSeconds = 20e-6  // of a core to read a payment that is not final, in each round

	pendingMB, finalMB = 0.002, 0.015 // to remember such a payment, and to end it among others at once
	callsOfARound      = 5            // for a wallet, to a node: a pool's count, a count, two balances, the final count
	roundSeconds       = 0.2          // of a round, beside its pause
	webhookBatch       = 10           // webhooks that deliver-webhook posts at once (BatchSize)
	usable             = 0.7          // of a limit; a burst finds the remainder
)

// A Chain has a chain's limits and prices, beside its profile in package chains.
type Chain struct {
	ID           uint64
	BlockGas     float64 // gas limit of a block
	FinalSeconds float64 // from a block until the chain's own rule calls it final (docs/chains.md)
	EpochSeconds float64 // between two blocks that it calls final; zero: no more than a round
	Pool         uint64  // transactions of one sender that its nodes hold
	Gas          float64 // of a payment to a new holder (docs/chains.md, "Gas")
	Price        float64 // gwei for each gas, the base fee and the tip: of a quiet day, a guess as the next is
	Dollars      float64 // of one coin
	Ether        string  // the name of its coin; "" where the token pays gas (package chains)
}

// Chains are the chains with plans. Gas limits: EIP-7935 (60 million), base/contract-deployments
// mainnet/2025-10-28-increase-gas-and-elasticity-limit (200 million), PIP-71 (60 million), Arc's test network
// (StableSignal/public-research), and Tempo's for general calls, where a new holder takes 250,000 gas more (TIP-1010,
// TIP-1000). Pools: lambdaclass/ethrex#6615 for reth, and #6603 for geth. A plan counts on whole blocks.
var Chains = map[string]Chain{
	"ethereum": {1, 60e6, 900, 384, 500, 62_000, 1, 3000, "ETH"}, // in the order of Chain's fields
	"base":     {8453, 200e6, 1080, 384, 16, 62_000, 0.01, 3000, "ETH"},
	"polygon":  {137, 60e6, 5, 0, 500, 62_000, 50, 0.25, "POL"},
	"arc":      {5042, 30e6, 1, 0, 16, 62_000, 20, 1, ""},
	"tempo":    {4217, 30e6, 1, 0, 16, 300_000, 20, 1, ""},
}

// Measured is the Consumption that `make bench` measured (bench/results); a test compares them.
var Measured = Consumption{
	Writes: 15, Reads: 8, HookWrites: 1, HookReads: 3, AuthorizerReads: 2, LookReads: 1, LookWrites: 1,
	PendingReads: 0.1525, Stored: 2678, HookStored: 574, Items: 4, Sends: 0.52, Post: 0.117, Get: 0.009, Auth: 0.005,
	Hook: 0.109, Work: WorkSeconds,
}

// Small is Size=small of template.yaml: requests a second, and runs at once of a function. A test compares them.
var Small = map[string]float64{"Api": 500, "WebhookBatches": 20, "Authorizer": 100, "SendPayment": 200}

// Default is the deployment of template.yaml by its defaults, without traffic; a test compares them.
var Default = Deployment{PostGB: 0.5, GetGB: 0.25, AuthGB: 0.25, HookGB: 0.25, SettleGB: 0.25,
	IdleGB: 0.25, CacheSeconds: 60, BlockSeconds: 2, FloorUnits: 40, Alarms: 27, Months: 1,
	LogBytes: 2000, OutBytes: 3500, NodeBytes: 4000, Nodes: 2}
