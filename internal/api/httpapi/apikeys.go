package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

const (
	defaultOverlap = 24 * time.Hour
	longestLife    = 365 * 24 * time.Hour
)

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

type rotatedKey struct {
	APIKey string `json:"api_key"`
	apikey.Public
}

type issuedKey struct {
	createdKey
	apikey.Permissions
	ExpiresAt *payment.Time `json:"expires_at"`
}

// CreateAPIKey serves POST /create-api-key. Where strangers may not, requests are refused before their body is read.
func CreateAPIKey(keys *apikey.Registry, allowed bool) Endpoint {
	if !allowed {
		return endpoint("CreateAPIKey", func(*call) (answer, error) { return answer{}, errKeyCreation })
	}
	return submission("CreateAPIKey", func(c *call, f *form) (answer, error) {
		f.required("merchant_name")
		name := f.name("merchant_name")
		if err := f.err(); err != nil {
			return answer{}, err
		}
		return reply(http.StatusCreated, createdKeyOf)(keys.Create(c.Context(), name, apikey.KeyRequest{}))
	})
}

// name reads an optional string that apikey.CheckName takes.
func (f *form) name(field string) string {
	name, ok := f.text(field, 0, math.MaxInt)
	if !ok {
		return ""
	}
	switch err := apikey.CheckName(name); {
	case errors.Is(err, apikey.ErrNameControl):
		f.refuse(field, "control_character", "Must not contain control characters, or others that are not drawn")
	case errors.Is(err, apikey.ErrNameTooLong):
		f.refuse(field, "string_too_long", "Must have at most 100 characters")
	case name == "":
		f.refuse(field, "string_too_short", "Must not be empty")
	case err != nil:
		f.refuse(field, "blank", "Must not be blank")
	}
	return name
}

// ListAPIKeys serves GET /api-keys.
func ListAPIKeys(keys *apikey.Registry) Endpoint {
	return endpoint("ListAPIKeys", func(c *call) (answer, error) {
		return listing(apikey.Key.Public)(keys.Store.List(c.Context(), c.caller.MerchantID))
	})
}

type ownKey struct {
	apikey.Public
	UsedToday struct {
		Amount *token.Amount `json:"amount"`
		Text   *string       `json:"amount_text"`
		Count  *uint64       `json:"count"`
	} `json:"used_today"`
}

// GetOwnAPIKey serves GET /api-keys/self.
func GetOwnAPIKey(keys *apikey.Registry, days store.DailyLimits, now func() time.Time) Endpoint {
	return endpoint("GetOwnAPIKey", func(c *call) (answer, error) {
		k, err := keys.Asking(c.Context(), c.caller)
		if err != nil {
			return answer{}, err
		}
		own := ownKey{Public: k.Public()}
		if k.Daily != (apikey.Limit{}) {
			amount, count, err := days.Charged(c.Context(), k.MerchantID, string(k.Mode), k.Daily.Key, now())
			if err != nil {
				return answer{}, err
			}
			if used := &own.UsedToday; !k.Daily.Amount.IsZero() {
				used.Amount, used.Text = &amount, token.Text(&amount)
			}
			if k.Daily.Count > 0 {
				own.UsedToday.Count = &count
			}
		}
		return ok(own, nil)
	})
}

func created(events dispatch.Announcer) apikey.Announce {
	return func(ctx context.Context, k apikey.Key) error {
		return events.Announce(ctx, webhook.Owner{Merchant: k.MerchantID, Mode: string(k.Mode)}, webhook.KeyCreated, k.CreatedAt, k.Public())
	}
}

// IssueAPIKey serves POST /api-keys.
func IssueAPIKey(keys *apikey.Registry, events dispatch.Announcer, assets Assets) Endpoint {
	return action("IssueAPIKey", func(c *call, f *form) (answer, error) {
		r := apikey.KeyRequest{
			Label: f.name("label"), Scopes: f.scopes(), Limits: apikey.Grant{Maximum: f.limit("max_amount"),
				Daily:        apikey.Limit{Amount: f.limit("daily_amount"), Count: f.count("daily_count", apikey.MaxCount)},
				ApproveAbove: f.limit("approve_above")}, Life: f.seconds("expires_in_seconds", 0, time.Second, longestLife),
		}
		r.Limits.Book = f.word("recipients", "any", "book") == "book"
		guard := f.seconds("repeat_guard_seconds", 0, apikey.MinGuard*time.Second, apikey.MaxGuard*time.Second)
		r.Limits.Guard = uint64(guard / time.Second)
		if _, ok := f.given("asset"); ok || r.Limits.HasAmounts() {
			all, err := assets.read(c.Context())
			if err != nil {
				return answer{}, err
			}
			r.Limits.Asset = f.asset(all).Coin()
		}
		if r.Check() != nil {
			f.refuse("scopes", "keys_scope_has_no_limits", "A key with limits must not have the scope keys")
		}
		if err := f.err(); err != nil {
			return answer{}, err
		}
		by, err := keys.Asking(c.Context(), c.caller)
		if err != nil {
			return answer{}, err
		}
		made, err := keys.Issue(c.Context(), by, r, created(events))
		if errors.Is(err, apikey.ErrNoScope) {
			err = invalids{{"too_few", []any{"body", "scopes"}, "Must name a scope"}}
		}
		return reply(http.StatusCreated, func(m apikey.Minted) issuedKey {
			return issuedKey{createdKeyOf(m), m.Key.Public().Permissions, payment.OrNull(payment.Time(m.Key.ExpiresAt))}
		})(made, err)
	})
}

// scopes reads 1 to 7 distinct words, nil if the field is absent.
func (f *form) scopes() []apikey.Scope {
	words, ok := f.texts("scopes")
	if !ok {
		return nil
	}
	scopes := []apikey.Scope{}
	for _, w := range words {
		switch s := apikey.Scope(w); {
		case !slices.Contains(apikey.AllScopes(), s):
			f.refuse("scopes", "enum", "Must be words out of payments:write, payments:read, webhooks, keys, recipients, "+
				"payments:propose, payments:approve")
			return nil
		case slices.Contains(scopes, s):
			f.refuse("scopes", "repeated", "Must not name a scope twice")
			return nil
		default:
			scopes = append(scopes, s)
		}
	}
	if len(scopes) == 0 {
		f.refuse("scopes", "too_few", "Must name a scope")
	}
	return scopes
}

func (f *form) limit(field string) token.Amount {
	v, ok := f.given(field)
	if !ok {
		return token.Amount{}
	}
	return f.positive(field, v)
}

func (f *form) count(field string, most uint64) uint64 {
	n, fits := f.limit(field).Uint64()
	if !fits || n > most {
		f.refuse(field, "too_large", fmt.Sprintf("Must be at most %d", most))
	}
	return n
}

// RotateAPIKey serves POST /api-keys/{id}/rotate.
func RotateAPIKey(keys *apikey.Registry, events dispatch.Announcer) Endpoint {
	return action("RotateAPIKey", func(c *call, f *form) (answer, error) {
		overlap := f.seconds("expires_in_seconds", defaultOverlap, 0, apikey.MaxOverlap)
		if err := f.err(); err != nil {
			return answer{}, err
		}
		by, err := askingAbout(c, keys)
		if err != nil {
			return answer{}, err
		}
		return reply(http.StatusCreated, func(m apikey.Minted) rotatedKey {
			return rotatedKey{m.Secret.Reveal(), m.Key.Public()}
		})(keys.Rotate(c.Context(), by, c.params["id"], overlap, created(events)))
	})
}

// RevokeAPIKey serves POST /api-keys/{id}/revoke.
func RevokeAPIKey(keys *apikey.Registry) Endpoint {
	return action("RevokeAPIKey", func(c *call, _ *form) (answer, error) {
		by, err := askingAbout(c, keys)
		if err != nil {
			return answer{}, err
		}
		return reply(http.StatusOK, apikey.Key.Public)(keys.Revoke(c.Context(), by, c.params["id"]))
	})
}

var keyID = regexp.MustCompile("^key_[0-9A-Za-z]{12}$")

// askingAbout returns the caller's key for a request about another key, named in the path. If the
// path names no key, it returns apikey.ErrNotFound without a read.
func askingAbout(c *call, keys *apikey.Registry) (apikey.Key, error) {
	if !keyID.MatchString(c.params["id"]) {
		return apikey.Key{}, apikey.ErrNotFound
	}
	return keys.Asking(c.Context(), c.caller)
}
