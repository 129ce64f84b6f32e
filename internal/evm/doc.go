// Package evm groups Remit's knowledge of EVM chains: amounts and addresses (token), the batch
// contract (disburser), transactions and their proofs (chain), a deployment's constants (stack) and
// settings (settings), the known chains (chains), and the client of JSON-RPC nodes (ethrpc).
//
// Nothing here knows a merchant, a payment or AWS.
package evm
