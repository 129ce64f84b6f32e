// Package evm groups what Remit knows of EVM chains: amounts and addresses (token), the batch
// contract (disburser), transactions and what proves them (chain), what a deployment fixes
// (stack) and may change (settings), what each known chain needs (chains), and the client of
// JSON-RPC nodes (ethrpc).
//
// Nothing here knows a merchant, a payment or AWS.
package evm
