// Package merchants groups merchants' property: API keys with their scopes and limits (apikey), address books
// (recipient), and webhooks with the sender that reaches no private address (webhook, webhook/guard).
//
// Nothing here knows a payment, a wallet or AWS.
package merchants
