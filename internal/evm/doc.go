// Package evm groups Remit's knowledge of EVM chains: amounts and addresses (token), the batch contract (disburser),
// transactions and their proofs (chain), and the client of JSON-RPC nodes (ethrpc).
//
// Nothing here knows a merchant, a payment, a stack or AWS.
package evm
