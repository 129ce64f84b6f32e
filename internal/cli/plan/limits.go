// Package plan computes the wallets, quotas, capacity, requests to nodes and dollars that a
// rate of payments needs, and the limits that it meets. It computes from counted calls, list
// prices and published limits, and queries no service.
package plan

// Limits that AWS sets, in the regions with its usual defaults.
const (
	// PartitionWrites is the write units a second that one partition of a table or of an
	// index takes; its 3,000 read units are no limit, since the 8,000 pending
	// payments of a wallet take 600 (DynamoDB developer guide, "Best practices for designing and using partition keys effectively").
	// A transaction takes each unit twice ("Capacity management for transactions").
	PartitionWrites = 1000
	// NewTableWrites is the write units a second that a new on-demand table takes at once;
	// it then takes twice its previous peak, half an hour after it (DynamoDB developer guide,
	// "DynamoDB on-demand capacity mode", initial throughput).
	NewTableWrites = 4000
	// TableUnits is the quota of units a second, of either kind, of one on-demand table
	// (the same page: 40,000 table-level read and write throughput).
	TableUnits = 40_000
	// GatewayRate is API Gateway's requests a second in an account (API Gateway developer
	// guide, "Quotas"; 2,500 in some regions).
	GatewayRate = 10_000
	// Signatures is KMS's signatures a second by keys of elliptic curves in an account (KMS
	// developer guide, "Request quotas": 300 in some editions of it, more in others).
	Signatures = 300
	// Environments is Lambda's concurrency in an account (Lambda developer guide, "Lambda
	// quotas"; a new account may have less).
	Environments = 1000
)

// Numbers of Remit's own design.
const (
	// ListBuckets is how many partitions one merchant's list has (dynamo.ListBuckets).
	ListBuckets = 16
	// ListWrites are the units that a payment writes to one of them: its commit and its end.
	ListWrites = 2
	// WalletWrites are the units of a payment in its wallet's partition: reservation,
	// pending transaction (twice, in a transaction), release, and its deletion.
	WalletWrites = 5
	// EndpointWrites are those of a webhook in its endpoint's log: stored, and recorded.
	EndpointWrites = 2
	// SettleSeconds is the time of a whole core that check-receipts takes to end one
	// payment: an assumption, half of the processor time of a whole payment on one
	// machine (docs/performance.md, "remit local under load").
	SettleSeconds = 0.0007
	// PendingSeconds is the time of a core that it takes to read one payment that is not
	// final, in each round: decoding 400 items of a query took 20 µs of processor time each.
	PendingSeconds = 20e-6
	// PendingMB is the memory that it takes to remember such a payment until it is final: 632
	// bytes each were measured of 100,000, twice while they are read again, and half as much
	// for the garbage collector.
	PendingMB = 0.002
	// FinalMB is the memory that it takes to end a payment among others that become final at
	// once: 150 MB of heap were measured of 10,000.
	FinalMB = 0.015
	// ReceiptsAnyway is how many receipts of a wallet each round asks for before it knows
	// which are final (package settlement).
	ReceiptsAnyway = 8
	// CallsOfARound are those of a round for each wallet, to each node: a count in the
	// pool, a count, two balances, and what is final of the count.
	CallsOfARound = 5
	// roundSeconds is how long a round takes beside its pause.
	roundSeconds = 0.2
	// usable is how much of a limit a plan uses up; a burst finds the remainder.
	usable = 0.7
	// mostGB is the most memory of a function (Lambda developer guide, "Configure Lambda
	// function memory": 10,240 MB).
	mostGB = 10
	// WebhookBatch is how many webhooks a batch of deliver-webhook posts at once (BatchSize).
	WebhookBatch = 10
)

// A Chain has a chain's limits and prices, beside its profile in package chains.
type Chain struct {
	ID           uint64
	BlockGas     float64 // gas limit of a block
	FinalSeconds float64 // from a block until the chain's own rule calls it final (docs/chains.md)
	EpochSeconds float64 // between two blocks that it calls final; zero: no more than a round
	Pool         uint64  // transactions of one sender that its nodes hold
	Gas          float64 // of a payment to a recipient who holds none of the token yet; zero: PaymentGas
	Price        float64 // gwei for each gas, the base fee and the tip: of a quiet day, and no more than a guess
	Ether        string  // the name of its coin; "" where the token pays gas (package chains)
	Dollars      float64 // of one coin: a guess, too
}

// PaymentGas is the gas of a transfer of USDC with a payment's id to a recipient who
// holds none yet: 45,000, and 17,100 for the new holder (docs/chains.md, "Gas").
const PaymentGas = 62_000

// Chains are the chains with plans. Sources of the gas limits: EIP-7935 (60 million),
// base/contract-deployments mainnet/2025-10-28-increase-gas-and-elasticity-limit (200 million),
// PIP-71 (60 million). Pools: lambdaclass/ethrex#6615 for reth, and #6603 for geth, whose hundreds
// are more than any window. Arc's limit is that of its test network (StableSignal/public-research). Tempo has
// two limits: a transfer with a payment's id comes under that of general calls. A new holder there takes 250,000
// gas more (TIP-1010, TIP-1000). A plan counts on a chain's whole block: other users leave less.
var Chains = map[string]Chain{
	"ethereum": {ID: 1, BlockGas: 60e6, FinalSeconds: 15 * 60, EpochSeconds: 384, Pool: 500, Price: 1, Ether: "ETH", Dollars: 3000},
	"base":     {ID: 8453, BlockGas: 200e6, FinalSeconds: 18 * 60, EpochSeconds: 384, Pool: 16, Price: 0.01, Ether: "ETH", Dollars: 3000},
	"polygon":  {ID: 137, BlockGas: 60e6, FinalSeconds: 5, Pool: 500, Price: 50, Ether: "POL", Dollars: 0.25},
	"arc":      {ID: 5042, BlockGas: 30e6, FinalSeconds: 1, Pool: 16, Price: 20, Dollars: 1},
	"tempo":    {ID: 4217, BlockGas: 30e6, FinalSeconds: 1, Pool: 16, Gas: 300_000, Price: 20, Dollars: 1},
}

// Measured is what `make bench` measured of one payment (bench/results); a test holds
// the two together.
var Measured = Consumption{
	Writes: 16, Reads: 6, HookWrites: 2, HookReads: 3, AuthorizerReads: 2, LookReads: 1, LookWrites: 1, PendingReads: 0.1525,
	Stored: 2961, HookStored: 1040, Items: 4, Sends: 0.6675, Post: 0.117, Get: 0.009, Auth: 0.005, Hook: 0.109, Work: WorkSeconds,
}

// Small is what template.yaml's Size=small gives: requests a second of a method, and how many
// of each function may run at once. A test holds the two together.
var Small = map[string]float64{"Api": 500, "WebhookBatches": 20, "Authorizer": 100, "SendPayment": 200}

// Default is the deployment of template.yaml by its defaults, without traffic; a test
// holds the two together.
var Default = Deployment{
	PostGB: 0.5, GetGB: 0.25, AuthGB: 0.25, HookGB: 0.25, SettleGB: 0.5, CacheSeconds: 60, BlockSeconds: 2, TraceShare: 0.01,
	FloorUnits: 40, Alarms: 20,
}
