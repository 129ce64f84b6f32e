package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/remit-payouts/remit/internal/api/strictjson"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

type endpointBody struct {
	ID          string         `json:"id"`
	URL         string         `json:"url"`
	EventTypes  []string       `json:"event_types"`
	Description *string        `json:"description"`
	Status      webhook.Status `json:"status"`
	CreatedAt   payment.Time   `json:"created_at"`
}

type secretBody struct {
	endpointBody
	Secret string `json:"secret"`
}

func secretBodyOf(e webhook.Endpoint) secretBody {
	return secretBody{endpointBodyOf(e), e.Secret.Reveal()}
}

func endpointBodyOf(e webhook.Endpoint) endpointBody {
	types := append([]string{}, e.EventTypes...) // [], not null
	return endpointBody{e.ID, e.URL, types, payment.OrNull(e.Description), e.Status, payment.Time(e.CreatedAt)}
}

func ownerOf(p apikey.Principal) webhook.Owner {
	return webhook.Owner{Merchant: p.MerchantID, Mode: string(p.Mode)}
}

// CreateWebhook serves POST /webhooks.
func CreateWebhook(registry *webhook.Registry) Endpoint {
	return submission("CreateWebhook", func(c *call, f *form) (answer, error) {
		var r webhook.Registration
		f.required("url")
		r.URL, _ = f.text("url", 1, maxBody)
		r.EventTypes, _ = f.texts("event_types")
		r.Description, _ = f.text("description", 0, webhook.DescriptionLimit)
		if err := f.err(); err != nil {
			return answer{}, err
		}
		return reply(http.StatusCreated, secretBodyOf)(registry.Register(c.Context(), ownerOf(c.caller), r))
	})
}

// ListWebhooks serves GET /webhooks.
func ListWebhooks(registry *webhook.Registry) Endpoint {
	return endpoint("ListWebhooks", func(c *call) (answer, error) {
		return listing(endpointBodyOf)(registry.Store.Endpoints(c.Context(), ownerOf(c.caller)))
	})
}

// UpdateWebhook serves POST /webhooks/{id}.
func UpdateWebhook(registry *webhook.Registry) Endpoint {
	return submission("UpdateWebhook", func(c *call, f *form) (answer, error) {
		var change webhook.Change
		if url, ok := f.text("url", 1, maxBody); ok {
			change.URL = &url
		}
		if types, ok := f.texts("event_types"); ok {
			change.EventTypes = &types
		}
		if description, ok := f.text("description", 0, webhook.DescriptionLimit); ok {
			change.Description = &description
		}
		if status, ok := f.text("status", 0, maxBody); ok {
			change.Status = new(webhook.Status(status))
		}
		if err := f.err(); err != nil {
			return answer{}, err
		}
		return reply(http.StatusOK, endpointBodyOf)(registry.Update(c.Context(), ownerOf(c.caller), c.params["id"], change))
	})
}

// DeleteWebhook serves POST /webhooks/{id}/delete.
func DeleteWebhook(registry *webhook.Registry) Endpoint {
	return action("DeleteWebhook", func(c *call, _ *form) (answer, error) {
		id := c.params["id"]
		return ok(struct {
			ID      string `json:"id"`
			Deleted bool   `json:"deleted"`
		}{id, true}, registry.Delete(c.Context(), ownerOf(c.caller), id))
	})
}

// RotateWebhookSecret serves POST /webhooks/{id}/rotate-secret.
func RotateWebhookSecret(registry *webhook.Registry) Endpoint {
	return action("RotateWebhookSecret", func(c *call, f *form) (answer, error) {
		overlap := f.seconds("expires_in_seconds", webhook.DefaultOverlap, 0, webhook.OverlapLimit)
		if err := f.err(); err != nil {
			return answer{}, err
		}
		return reply(http.StatusOK, secretBodyOf)(registry.RotateSecret(c.Context(), ownerOf(c.caller), c.params["id"], overlap))
	})
}

func (f *form) texts(field string) (list []string, ok bool) {
	v, ok := f.given(field)
	if !ok {
		return nil, false
	}
	list = []string{}
	for _, item := range v.Items {
		if item.Kind == strictjson.String {
			list = append(list, item.Text)
		}
	}
	if v.Kind != strictjson.Array || len(list) < len(v.Items) {
		f.refuse(field, "array_type", "Must be a list of strings")
		return nil, false
	}
	return list, true
}

// invalidsOf returns the faults of a request that err holds: invalids, or those that package webhook has joined. Nil if
// err has another reason.
func invalidsOf(err error) invalids {
	bad, _ := errors.AsType[invalids](err)
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return bad
	}
	for _, one := range joined.Unwrap() {
		if e, ok := errors.AsType[*webhook.FieldError](one); ok {
			kind := map[string]string{"url": "url_refused", "event_types": "enum", "status": "enum"}[e.Field]
			bad.add(kind, strings.ToUpper(e.Reason[:1])+e.Reason[1:], "body", e.Field)
		}
	}
	return bad
}
