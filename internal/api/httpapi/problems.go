package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A problem is the only part of an error that a caller sees, and the whole of an error of this package.
type problem struct {
	status     int
	code       string      // stable; listed in openapi.yaml. Empty: the body has none, as of a 401
	detail     any         // a sentence, or the list of a 422
	index      *int        // of the entry of a batch that a 400 concerns, if any
	similar    *chain.Hash // of the payment of a SimilarError
	proposal   string      // that holds the key, if any
	allow      string      // Allow header, if any
	retryAfter int         // seconds, Retry-After header; 0: none
}

func (p problem) Error() string { return p.code }

// Refusals of this package, which are the same for all endpoints.
var (
	errNoRoute   = refusal(http.StatusNotFound, "not_found", "Not Found")
	errTooLarge  = refusal(http.StatusRequestEntityTooLarge, "body_too_large", "The body may have at most 65536 bytes.")
	errNotUTF8   = refusal(http.StatusBadRequest, "body_not_utf8", "The body is not valid UTF-8.")
	errKeySyntax = refusal(http.StatusBadRequest, "idempotency_key_invalid",
		"Idempotency-Key must be sent once, as 1 to 255 visible ASCII characters without blanks, raw or in one pair of double quotes.")
	errMisplaced = badRequest("idempotency_key_missing",
		"Send the key in the header Idempotency-Key: it is not read in another header, the body or the query. Nothing was paid.")
	errKeyCreation = refusal(http.StatusForbidden, "key_creation_closed", "This service's operator issues API keys.")
	errKeyless     = refusal(http.StatusConflict, "idempotency_in_progress", // a repeated POST pays again
		"The payment may be made, even later. Do not repeat the POST, which has no Idempotency-Key: watch GET /transactions for it.")
)

// problems are of other packages' errors that a caller can act on; the first match wins. An error's own text goes to
// the log only.
var problems = []struct {
	is error
	problem
}{
	{apikey.ErrInvalid, problem{status: http.StatusUnauthorized, detail: "Invalid API Key"}},
	{dispatch.ErrNotAfter, badRequest("not_after_invalid",
		"Remit-Not-After must be sent once, as whole Unix seconds of 1 to 10 digits, at most 300 s after the Date of this answer.")},
	{dispatch.ErrExpired, badRequest("request_expired",
		"Remit-Not-After has passed, and nothing is paid for this request. Send it again with a later time if you still want to pay.")},
	{dispatch.ErrKeyMissing, badRequest("idempotency_key_missing",
		"Send an Idempotency-Key: one for each payment that you intend, the same on every retry. Nothing was paid.")},

	{apikey.ErrSuspended, refusal(http.StatusForbidden, "merchant_suspended",
		"The operator of this service has suspended your account. Payments that were answered 201 are still made. Ask the operator.")},
	{apikey.ErrNotPermitted, refusal(http.StatusForbidden, "key_not_permitted",
		"Your API key does not permit this: GET /api-keys/self shows its scopes, assets, maximum and expiry.")},

	{dispatch.ErrInProgress, problem{status: http.StatusConflict, code: "idempotency_in_progress", retryAfter: 1,
		detail: "A payment under this Idempotency-Key is being made. Repeat the POST with the same key; that is always safe."}},
	{dispatch.ErrTooMany, problem{status: http.StatusTooManyRequests, code: "too_many_pending", retryAfter: 5,
		detail: "Too many of your payments wait to be mined. Nothing was started; try again when some are."}},
	{dispatch.ErrBusy, problem{status: http.StatusTooManyRequests, code: "too_many_requests", retryAfter: 1,
		detail: "Too many requests"}}, // as the gateway says it
	{dispatch.ErrRolledBack, problem{status: unavailable.status, code: unavailable.code, retryAfter: unavailable.retryAfter,
		detail: "Payments wait: the chain lacks blocks that were final, and is expected to catch up. Nothing was started; it is safe " +
			"to try again."}},
	{dispatch.ErrUnavailable, unavailable},
	{chain.ErrUnavailable, unavailable},
	{dispatch.ErrInsufficient, badRequest("insufficient_funds", "The service cannot cover this payment at the moment. Nothing was paid.")},
	{dispatch.ErrAmountBelow, badRequest("amount_below_minimum", "The amount is below the minimum of this service. Nothing was paid.")},
	{dispatch.ErrAmountAbove, badRequest("amount_above_maximum",
		"The amount is above the maximum of this service, or of your API key: GET /api-keys/self shows the key's. Nothing was paid.")},
	{store.ErrDailyLimit, badRequest("daily_limit_exceeded", "The payment would exceed your limit for this UTC day. Nothing was paid.")},
	{dispatch.ErrRecipient, badRequest("recipient_not_allowed",
		"This recipient cannot be paid: the token contract or a list of this service refuses it. Nothing was paid.")},

	{dispatch.ErrApprovalRequired, refusal(http.StatusForbidden, "approval_required",
		"An amount like this needs an approval: send it to POST /proposals, and have another key approve it. Nothing was paid.")},
	{dispatch.ErrNoProposal, refusal(http.StatusNotFound, "proposal_not_found", "No such proposal.")},
	{proposal.ErrOwn, refusal(http.StatusForbidden, "own_proposal",
		"The key that proposed, or one that it was rotated to or from, cannot approve. Use another key.")},
	{proposal.ErrEnded, refusal(http.StatusConflict, "proposal_ended",
		"The proposal has ended. Nothing will be paid under its key.")},
	{proposal.ErrReleased, refusal(http.StatusConflict, "proposal_released",
		"The proposal's payment is being made, or is made: watch it.")},
	{proposal.ErrBeginning, problem{status: http.StatusConflict, code: "proposal_in_progress", retryAfter: 1,
		detail: "The proposal is being changed or released at this moment. Repeat the request."}},
	{store.ErrProposals, badRequest("proposal_limit_reached", "You have 1000 open proposals. Cancel some, or wait until some are released.")},
	{dispatch.ErrOtherAsset, refusal(http.StatusForbidden, "key_not_permitted",
		"Your API key pays another asset: GET /api-keys/self names it. Nothing was paid.")},
	{dispatch.ErrAssetClosed, badRequest("asset_closed",
		"The operator of this service has closed this asset. Nothing was paid. GET /assets says which are open.")},
	{dispatch.ErrGuardedBatch, refusal(http.StatusForbidden, "key_not_permitted",
		"Your API key has a repeat guard, and pays no batches. Send each payment to /send-payment. Nothing was paid.")},
	{dispatch.ErrSimilarPending, problem{status: http.StatusTooManyRequests, code: "similar_in_progress", retryAfter: 1,
		detail: "A payment of this amount to this recipient is being made. Nothing was started; retry in a second."}},
	{dispatch.ErrNoBatches, badRequest("batches_not_enabled",
		"This service pays no batches: send each payment to /send-payment. Nothing was paid.")},
	{dispatch.ErrNotInBook, badRequest("recipient_not_in_book",
		"Your API key pays active entries of the address book only. Add the recipient and wait until it is active. Nothing was paid.")},
	{apikey.ErrLimit, badRequest("key_limit_reached", "You have 25 live API keys. Revoke one.")},

	{recipient.ErrNotFound, refusal(http.StatusNotFound, "recipient_not_found", "No such recipient.")},
	{apikey.ErrNotFound, refusal(http.StatusNotFound, "api_key_not_found", "No such API key.")},
	{store.ErrNotFound, refusal(http.StatusNotFound, "transaction_not_found", "No such transaction.")},
	{webhook.ErrNotFound, refusal(http.StatusNotFound, "webhook_not_found", "No such webhook.")},
	{webhook.ErrDeliveryNotFound, refusal(http.StatusNotFound, "delivery_not_found", "No such delivery.")},
	{webhook.ErrLimit, badRequest("webhook_limit_reached", "You have 10 webhooks. First POST /webhooks/{id}/delete.")},
	{webhook.ErrDisabled, refusal(http.StatusConflict, "webhook_disabled",
		"The webhook is disabled and is sent nothing. Enable it first.")},
	{webhook.ErrConflict, problem{status: http.StatusConflict, code: "webhook_changed", retryAfter: 1,
		detail: "The webhook was changed by another request. Try again."}},
}

// badRequest is of a request that a rule refuses. Nothing was started, and no Idempotency-Key was used up.
func badRequest(code, detail string) problem { return refusal(http.StatusBadRequest, code, detail) }

func refusal(status int, code, detail string) problem {
	return problem{status: status, code: code, detail: detail}
}

// unavailable is the problem of nodes or stores that could not be reached before the payment was started.
var unavailable = problem{status: http.StatusServiceUnavailable, code: "payment_rail_unavailable", retryAfter: 5,
	detail: "Payments cannot be made at the moment. Nothing was started; it is safe to try again."}

var internal = refusal(http.StatusInternalServerError, "internal_error", "Internal Server Error")

func problemOf(err error) problem {
	if list := invalidsOf(err); list != nil {
		return problem{status: http.StatusUnprocessableEntity, code: "validation_failed", detail: list}
	}
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	if similar, ok := errors.AsType[*dispatch.SimilarError](err); ok {
		p := badRequest("similar_payment", "This amount was paid to this recipient lately, under another "+
			"Idempotency-Key: see tx_hash. Nothing was paid. For a second payment, send that hash as different_from.")
		p.similar = &similar.TxHash
		return p
	}
	if open, ok := errors.AsType[*dispatch.OpenError](err); ok {
		p := refusal(http.StatusConflict, "proposal_open",
			"A proposal holds this Idempotency-Key, and pays once it is released: watch it, or cancel it.")
		p.proposal = proposal.ID(open.ID)
		return p
	}
	for _, row := range problems {
		if errors.Is(err, row.is) {
			if entry, ok := errors.AsType[entryError](err); ok && row.status == http.StatusBadRequest {
				row.index = &entry.index
			}
			return row.problem
		}
	}
	return internal
}

func (p problem) answer() answer {
	a := answer{status: p.status, header: map[string]string{}}
	a.body = struct {
		Detail any         `json:"detail"`
		Code   string      `json:"code,omitempty"`
		Index  *int        `json:"index,omitempty"`
		TxHash *chain.Hash `json:"tx_hash,omitempty"`
		Open   string      `json:"proposal,omitempty"`
	}{p.detail, p.code, p.index, p.similar, p.proposal}
	if p.allow != "" {
		a.header["Allow"] = p.allow
	}
	if p.retryAfter > 0 {
		a.header["Retry-After"] = strconv.Itoa(p.retryAfter)
	}
	return a
}
