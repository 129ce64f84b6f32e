package dynamo

import (
	"maps"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

type endpointItem struct {
	MerchantID        string   `dynamodbav:"merchant_id"`
	Mode              string   `dynamodbav:"mode"`
	ID                string   `dynamodbav:"id"`
	URL               string   `dynamodbav:"url"`
	EventTypes        []string `dynamodbav:"event_types,omitempty"`
	Description       string   `dynamodbav:"description,omitempty"`
	Status            string   `dynamodbav:"status"`
	Secret            string   `dynamodbav:"secret"`
	PreviousSecret    string   `dynamodbav:"previous_secret,omitempty"`
	PreviousExpiresAt string   `dynamodbav:"previous_expires_at,omitempty"`
	QuietSince        string   `dynamodbav:"quiet_since,omitempty"`
	Exhausted         string   `dynamodbav:"exhausted,omitempty"`
	Slow              int      `dynamodbav:"slow,omitempty"`
	RetryAt           string   `dynamodbav:"retry_at,omitempty"`
	CreatedAt         string   `dynamodbav:"created_at"`
	EnabledAt         string   `dynamodbav:"enabled_at"`
	DeletedAt         string   `dynamodbav:"deleted_at,omitempty"`
	TTL               int64    `dynamodbav:"ttl,omitempty"` // in epoch seconds
	Version           int64    `dynamodbav:"version"`
}

var endpointChanging = []string{"url", "event_types", "description", "status", "secret", "previous_secret", "previous_expires_at",
	"quiet_since", "exhausted", "slow", "retry_at", "enabled_at", "version"}

func encodeEndpoint(e webhook.Endpoint, at primaryKey) attributes {
	item := encode(endpointItem{
		MerchantID: e.Merchant, Mode: e.Mode, ID: e.ID, URL: e.URL, EventTypes: e.EventTypes,
		Description: e.Description, Status: string(e.Status), Secret: e.Secret.Stored(),
		PreviousSecret: e.PreviousSecret.Stored(), PreviousExpiresAt: instant(e.PreviousExpiresAt),
		QuietSince: instant(e.QuietSince), Exhausted: e.Exhausted, Slow: e.Slow, RetryAt: instant(e.RetryAt),
		CreatedAt: instant(e.CreatedAt), EnabledAt: instant(e.EnabledAt), Version: e.Version,
		DeletedAt: instant(e.DeletedAt), TTL: expiry(e.DeletedAt),
	})
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
	e := webhook.Endpoint{
		Owner: webhook.Owner{Merchant: it.MerchantID, Mode: it.Mode}, ID: it.ID, URL: it.URL, EventTypes: it.EventTypes,
		Description: it.Description, Status: webhook.Status(it.Status), Exhausted: it.Exhausted, Version: it.Version,
		Slow: it.Slow, RetryAt: r.instant("retry_at", it.RetryAt),
		PreviousSecret:    optional(r, "previous_secret", it.PreviousSecret, webhook.ParseStored),
		Secret:            parsed(r, "secret", it.Secret, webhook.ParseStored),
		PreviousExpiresAt: r.instant("previous_expires_at", it.PreviousExpiresAt),
		QuietSince:        r.instant("quiet_since", it.QuietSince), CreatedAt: r.instant("created_at", it.CreatedAt),
		EnabledAt: r.instant("enabled_at", it.EnabledAt), DeletedAt: r.instant("deleted_at", it.DeletedAt),
	}
	return decoded(r, e, it.ID)
}
