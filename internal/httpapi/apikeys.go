package httpapi

import (
	"errors"
	"net/http"
	"time"

	"remit/internal/apikey"
	"remit/internal/payment"
	"remit/internal/strictjson"
)

// defaultOverlap is the time for which a rotated key works when the caller names
// none.
const defaultOverlap = 24 * time.Hour

// createdKey is the body of POST /create-api-key.
type createdKey struct {
	APIKey       string       `json:"api_key"`
	ID           string       `json:"id"`
	MerchantID   string       `json:"merchant_id"`
	MerchantName string       `json:"merchant_name"`
	Mode         apikey.Mode  `json:"mode"`
	CreatedAt    payment.Time `json:"created_at"`
}

func createdKeyOf(m apikey.Minted) createdKey {
	return createdKey{m.Secret.Reveal(), m.Key.ID, m.Key.MerchantID, m.Key.MerchantName, m.Key.Mode, payment.Time(m.Key.CreatedAt)}
}

// listedKey is a key without its text.
type listedKey struct {
	ID         string        `json:"id"`
	Prefix     string        `json:"prefix"`
	Last4      string        `json:"last4"`
	CreatedAt  payment.Time  `json:"created_at"`
	LastUsedAt *payment.Time `json:"last_used_at"`
	ExpiresAt  *payment.Time `json:"expires_at"`
	RevokedAt  *payment.Time `json:"revoked_at"`
}

func listedKeyOf(k apikey.Key) listedKey {
	return listedKey{k.ID, k.Prefix, k.Last4, payment.Time(k.CreatedAt), timeOrNull(k.LastUsedAt), timeOrNull(k.ExpiresAt), timeOrNull(k.RevokedAt)}
}

// rotatedKey is the body of POST /api-keys/{id}/rotate.
type rotatedKey struct {
	APIKey string `json:"api_key"`
	listedKey
}

func rotatedKeyOf(m apikey.Minted) rotatedKey {
	return rotatedKey{m.Secret.Reveal(), listedKeyOf(m.Key)}
}

// timeOrNull returns nil, which is written as null, for the zero time.
func timeOrNull(t time.Time) *payment.Time {
	if t.IsZero() {
		return nil
	}
	public := payment.Time(t)
	return &public
}

// CreateAPIKey serves POST /create-api-key. keys is nil where only an operator
// creates keys: every request is refused then, before its body is read.
func CreateAPIKey(newID func() string, keys *apikey.Registry) Endpoint {
	return endpoint("CreateAPIKey", newID, func(c *call) (answer, error) {
		if keys == nil {
			return answer{}, errKeyCreation
		}
		f, err := readForm(c.Request)
		if err != nil {
			return answer{}, err
		}
		name := f.merchantName("merchant_name")
		if err := f.err(); err != nil {
			return answer{}, err
		}
		return reply(http.StatusCreated, createdKeyOf)(keys.Create(c.Context(), name))
	})
}

// merchantName reads a required name and checks it with apikey.CheckName.
func (f *form) merchantName(field string) string {
	v, ok := f.object.Member(field)
	if !ok {
		f.missing(field)
		return ""
	}
	if v.Kind != strictjson.String {
		f.refuse(field, "string_type", "Must be a string")
		return ""
	}
	switch err := apikey.CheckName(v.Text); {
	case errors.Is(err, apikey.ErrNameControl):
		f.refuse(field, "control_character", "Must not contain control characters")
	case errors.Is(err, apikey.ErrNameTooLong):
		f.refuse(field, "string_too_long", "Must have at most 100 characters")
	case v.Text == "":
		f.refuse(field, "string_too_short", "Must not be empty")
	case err != nil:
		f.refuse(field, "blank", "Must not be blank")
	}
	return v.Text
}

// ListAPIKeys serves GET /api-keys.
func ListAPIKeys(newID func() string, keys *apikey.Registry) Endpoint {
	return endpoint("ListAPIKeys", newID, func(c *call) (answer, error) {
		return listing(listedKeyOf)(keys.List(c.Context(), c.caller.MerchantID))
	})
}

// RotateAPIKey serves POST /api-keys/{id}/rotate.
func RotateAPIKey(newID func() string, keys *apikey.Registry) Endpoint {
	return action("RotateAPIKey", newID, func(c *call, f *form) (answer, error) {
		overlap := f.seconds("expires_in_seconds", defaultOverlap, apikey.MaxOverlap)
		if err := f.err(); err != nil {
			return answer{}, err
		}
		return reply(http.StatusCreated, rotatedKeyOf)(keys.Rotate(c.Context(), c.caller.MerchantID, c.params["id"], overlap))
	})
}

// RevokeAPIKey serves POST /api-keys/{id}/revoke.
func RevokeAPIKey(newID func() string, keys *apikey.Registry) Endpoint {
	return action("RevokeAPIKey", newID, func(c *call, _ *form) (answer, error) {
		return reply(http.StatusOK, listedKeyOf)(keys.Revoke(c.Context(), c.caller.MerchantID, c.params["id"]))
	})
}
