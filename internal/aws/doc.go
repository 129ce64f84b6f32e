// Package aws groups the adapters to AWS (dynamo, schema, kms, secrets, queue, emf), one external service each, and the
// readers of a function's environment (boot, chainenv, walletenv, dispatchenv, meterenv), which mains put together.
//
// Adapters never import each other.
package aws
