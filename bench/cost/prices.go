// Package cost computes what a month of payments costs on AWS, from what a
// payment was counted to consume and list prices. Nothing in it is measured
// here, and no free tier is deducted.
package cost

// Prices in dollars, us-east-1, without any free tier or volume discount, as
// AWS lists them on its pricing pages. The node provider is not among them.
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
)
