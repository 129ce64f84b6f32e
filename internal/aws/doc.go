// Package aws groups the adapters to AWS (dynamo, schema, kms, secrets, queue, emf), one external service each, and the
// readers of a function's environment (boot, tableenv, chainenv, eventenv, signenv, apienv), which mains put together.
//
// Adapters never import each other.
package aws
