// Package payments groups the engine that moves money: a payment and its states (payment), wallets and their nonces
// (wallet), signing (keyring), the port to the database (store), the path from a request to the broadcast (dispatch),
// from there to final (settlement), and back from the chain when the tables are lost (recovery).
//
// Nothing here knows HTTP or AWS. The order of effects is in docs/guarantees.md.
package payments
