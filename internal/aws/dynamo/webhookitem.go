package dynamo

import (
	"maps"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// An endpointItem is a webhook.Endpoint. Its merchant_id, mode and secrets are texts, beside its ttl in epoch seconds.
type endpointItem struct {
	webhook.Owner     `dynamodbav:"-"`
	ID                string         `dynamodbav:"id"`
	URL               string         `dynamodbav:"url"`
	EventTypes        []string       `dynamodbav:"event_types,omitempty"`
	Description       string         `dynamodbav:"description,omitempty"`
	Status            webhook.Status `dynamodbav:"status"`
	Secret            webhook.Secret `dynamodbav:"-"`
	PreviousSecret    webhook.Secret `dynamodbav:"-"`
	PreviousExpiresAt time.Time      `dynamodbav:"previous_expires_at,omitempty"`
	QuietSince        time.Time      `dynamodbav:"quiet_since,omitempty"`
	Exhausted         string         `dynamodbav:"exhausted,omitempty"`
	Slow              int            `dynamodbav:"slow,omitempty"`
	RetryAt           time.Time      `dynamodbav:"retry_at,omitempty"`
	CreatedAt         time.Time      `dynamodbav:"created_at"`
	EnabledAt         time.Time      `dynamodbav:"enabled_at"`
	DeletedAt         time.Time      `dynamodbav:"deleted_at,omitempty"`
	Version           int64          `dynamodbav:"version"`
}

var endpointChanging = []string{"url", "event_types", "description", "status", "secret", "previous_secret",
	"previous_expires_at", "quiet_since", "exhausted", "slow", "retry_at", "enabled_at", "version"}

func encodeEndpoint(e webhook.Endpoint, at primaryKey) attributes {
	item := encode(endpointItem(e))
	item[attrMerchantID], item["mode"], item["secret"] = text(e.Merchant), text(e.Mode), text(e.Secret.Stored())
	if previous := e.PreviousSecret.Stored(); previous != "" {
		item["previous_secret"] = text(previous)
	}
	if !e.DeletedAt.IsZero() {
		item[attrTTL] = encodeValue(expiry(e.DeletedAt))
	}
	maps.Copy(item, at)
	return item
}

// updateEndpoint sets e's attributes one by one if the stored version is read. It never puts the whole item: while a
// deployment is under way, an older binary must not erase the attributes that a newer one has added.
func updateEndpoint(e webhook.Endpoint, read int64) change {
	return change{key: endpointKey(e.Owner, e.ID), still: args{"version": read},
		set: pick(encodeEndpoint(e, nil), endpointChanging...)}
}

func decodeEndpoint(item attributes) (webhook.Endpoint, error) {
	var it endpointItem
	r := read(item, &it)
	it.Owner = webhook.Owner{Merchant: textOf(item, attrMerchantID), Mode: textOf(item, "mode")}
	it.Secret = parsed(r, "secret", textOf(item, "secret"), webhook.ParseStored)
	it.PreviousSecret = optional(r, "previous_secret", textOf(item, "previous_secret"), webhook.ParseStored)
	return decoded(r, webhook.Endpoint(it), it.ID)
}
