// Package proof groups packages for tests: a whole deployment under faults, judged by an oracle
// (simulation), the suite that both databases pass (storetest), and helpers of tests (dynamotest,
// guidetest, must, operatortest, porttest, tabletest, tooltest).
//
// No program links them.
package proof
