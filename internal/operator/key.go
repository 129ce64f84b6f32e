package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/internal/apikey"
	"remit/internal/dynamo"
	"remit/internal/token"
	"remit/internal/webhook"
)

// Keys is `remit keys`.
type Keys struct {
	Create    keyCreate    `cmd:"" help:"Make a merchant and its first API key. The key is shown once."`
	Issue     keyIssue     `cmd:"" help:"Give a merchant a further API key, also one that has lost its own: its history and its Idempotency-Keys live on."`
	List      keyList      `cmd:"" help:"List a merchant's keys and what each may do."`
	Revoke    keyRevoke    `cmd:"" help:"End a key at once."`
	RevokeAll keyRevokeAll `cmd:"" help:"End every key of a merchant; after a restore, every key, or those that another table knows as ended."`
}

type keyCreate struct {
	Target
	restrictions
	Name string `arg:"" help:"The merchant's name."`
	Yes  bool   `help:"Do not ask."`
}

// Run makes the key with the operator's rights, so it works also where KeyCreation
// closes the API's endpoint.
func (c *keyCreate) Run(ctx context.Context, d *deployment) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	registry, err := d.registry()
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("This makes a merchant %q in stack %s, with an API key in %s mode.", c.Name, d.Stack,
		d.mode)); err != nil {
		return err
	}
	made, err := registry.Create(ctx, c.Name, r)
	if err != nil {
		return err
	}
	return d.showKey(made)
}

// registry is the registry of the stack's keys.
func (d *deployment) registry() (*apikey.Registry, error) {
	store, err := d.keys()
	return apikey.NewRegistry(store, apikey.Mode(d.mode), time.Now, rand.Reader), err
}

// showKey shows a new key, this once.
func (d *deployment) showKey(made apikey.Minted) error {
	answer := struct {
		APIKey     string `json:"api_key"`
		MerchantID string `json:"merchant_id"`
		apikey.Public
	}{made.Secret.Reveal(), made.Key.MerchantID, made.Key.Public()}
	return d.show(answer, fmt.Sprintf("%s\nmerchant %s. May do: %s. The key is not shown again.", answer.APIKey, answer.MerchantID,
		mayDo(answer.Permissions)))
}

// restrictions are the flags that say what a key may do.
type restrictions struct {
	Label       string         `help:"The merchant's words for the key."`
	Scopes      []apikey.Scope `help:"What it may do: payments:write, payments:read, webhooks, keys, recipients. None: everything, but keys for a key with limits."`
	MaxAmount   token.Amount   `help:"Largest payment, in the token's smallest unit; 0 for any."`
	DailyAmount token.Amount   `help:"Most that it may pay in a UTC day; 0 for any."`
	DailyCount  uint64         `help:"Most payments in a UTC day; 0 for any."`
	Recipients  string         `enum:"any,book" default:"any" help:"Whom it may pay: any, or active entries of the merchant's recipient book."`
	ExpiresIn   time.Duration  `help:"How long it works, such as 720h; 0 for ever."`
}

// request returns the flags as a request, or which of them cannot be used.
func (r restrictions) request() (apikey.KeyRequest, error) {
	request := apikey.KeyRequest{
		Label: r.Label, Maximum: r.MaxAmount, Amount: r.DailyAmount, Count: r.DailyCount, Book: r.Recipients == "book", Life: r.ExpiresIn,
	}
	if len(r.Scopes) > 0 {
		request.Scopes = r.Scopes
	}
	for _, s := range r.Scopes {
		if !slices.Contains(apikey.AllScopes(), s) {
			return request, fmt.Errorf("--scopes: %q is none of %v", s, apikey.AllScopes())
		}
	}
	switch {
	case r.DailyCount > apikey.MaxCount:
		return request, fmt.Errorf("--daily-count is at most %d", apikey.MaxCount)
	case r.ExpiresIn < 0:
		return request, errors.New("--expires-in must not be negative")
	case r.Label == "":
		return request, request.Check()
	}
	if err := apikey.CheckName(r.Label); err != nil {
		return request, fmt.Errorf("--label: %w", err)
	}
	return request, request.Check()
}

type keyIssue struct {
	Target
	restrictions
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
	Name     string `help:"The merchant's name, if a restored table has none of its keys."`
	Yes      bool   `help:"Do not ask."`
}

// Run makes the key and tells the merchant's webhooks of it.
func (c *keyIssue) Run(ctx context.Context, d *deployment) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	registry, err := d.registry()
	if err != nil {
		return err
	}
	hooks, err := d.webhooks()
	if err != nil {
		return err
	}
	jobs, err := d.jobs()
	if err != nil {
		return err
	}
	by, err := registry.Operator(ctx, c.Merchant, c.Name)
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("This gives %s (%s) in stack %s another API key, in %s mode.", by.MerchantID, by.MerchantName,
		d.Stack, d.mode)); err != nil {
		return err
	}
	made, err := registry.Issue(ctx, by, r, func(ctx context.Context, k apikey.Key) error {
		return webhook.NewPublisher(hooks, jobs).Announce(ctx, d.owner(c.Merchant), webhook.KeyCreated, k.CreatedAt, k.Public())
	})
	if err != nil {
		return err
	}
	return d.showKey(made)
}

// mayDo says what a key may do in one line.
func mayDo(p apikey.Permissions) string {
	var words []string
	for _, s := range p.Scopes {
		words = append(words, string(s))
	}
	if len(p.Scopes) == len(apikey.AllScopes()) {
		words = []string{"everything"}
	}
	if p.MaxAmount != nil {
		words = append(words, "max "+p.MaxAmount.String())
	}
	if p.DailyAmount != nil {
		words = append(words, "daily "+p.DailyAmount.String())
	}
	if p.DailyCount != nil {
		words = append(words, fmt.Sprintf("%d a day", *p.DailyCount))
	}
	if p.Recipients == "book" {
		words = append(words, "book")
	}
	if p.Label != nil {
		words = append(words, fmt.Sprintf("%q", *p.Label))
	}
	return strings.Join(words, ", ")
}

type keyList struct {
	Target
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
}

// Run lists keys, newest first.
func (c *keyList) Run(ctx context.Context, d *deployment) error {
	store, err := d.keys()
	if err != nil {
		return err
	}
	keys, err := store.List(ctx, c.Merchant)
	if err != nil {
		return err
	}
	rows, text := keyRows(keys)
	return d.show(rows, text)
}

// keyRows returns keys as they are shown, in JSON and as text.
func keyRows(keys []apikey.Key) ([]apikey.Public, string) {
	rows := []apikey.Public{}
	var b strings.Builder
	fmt.Fprintf(&b, keyRow, "ID", "PREFIX", "LAST4", "CREATED", "LAST USED", "EXPIRES", "REVOKED", "MAY DO")
	for _, k := range keys {
		rows = append(rows, k.Public())
		fmt.Fprintf(&b, keyRow, k.ID, k.Prefix, k.Last4, stamp(k.CreatedAt), stamp(k.LastUsedAt), stamp(k.ExpiresAt), stamp(k.RevokedAt),
			mayDo(k.Public().Permissions))
	}
	return rows, b.String()
}

// keyRow is a row of the list of keys.
const keyRow = "%-18s %-26s %-5s %-20s  %-20s  %-20s  %-20s  %s\n"

type keyRevoke struct {
	Target
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
	ID       string `arg:"" help:"The key's id, key_…"`
	Yes      bool   `help:"Do not ask."`
}

// Run revokes a key.
func (c *keyRevoke) Run(ctx context.Context, d *deployment) error {
	registry, err := d.registry()
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("Requests with key %s of %s are refused from now on, at the latest %s seconds after. This "+
		"cannot be undone.", c.ID, c.Merchant, d.keyCache)); err != nil {
		return err
	}
	by, err := registry.Operator(ctx, c.Merchant, "")
	if err != nil {
		return err
	}
	key, err := registry.Revoke(ctx, by, c.ID)
	if err != nil {
		return err
	}
	return d.show(map[string]any{"id": key.ID, "revoked_at": stamp(key.RevokedAt)}, fmt.Sprint("revoked ", stamp(key.RevokedAt)))
}

type keyRevokeAll struct {
	Target
	Merchant string `placeholder:"MER" xor:"which" help:"End the keys of this merchant, mer_…, and no others: of one whose key was stolen, which may have made more."`
	EndedIn  string `placeholder:"TABLE" xor:"which" help:"The table that was in use before the restore: end only the keys that are revoked or expire there, as they do there."`
	Yes      bool   `help:"Do not ask."`
}

// ofMerchant revokes the merchant's keys until none is valid: until it learns of its end, a
// key may make others. A crash leaves some alive, and the command is run again.
func (c *keyRevokeAll) ofMerchant(ctx context.Context, d *deployment) error {
	registry, err := d.registry()
	if err != nil {
		return err
	}
	by, err := registry.Operator(ctx, c.Merchant, "")
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("Every key of %s (%s) in stack %s is refused from now on, at the latest %s seconds after: "+
		"it needs a new one (remit keys issue). This cannot be undone.", by.MerchantID, by.MerchantName, d.Stack, d.keyCache)); err != nil {
		return err
	}
	for ended := []string{}; ; {
		keys, err := registry.List(ctx, c.Merchant)
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(k apikey.Key) bool { return !k.Valid(time.Now()) })
		if len(keys) == 0 {
			return d.show(map[string]any{"ended": ended}, fmt.Sprintf("%d keys end\n%s", len(ended), strings.Join(ended, "\n")))
		}
		for _, k := range keys {
			if _, err := registry.Revoke(ctx, by, k.ID); err != nil {
				return err
			}
			if !slices.Contains(ended, k.ID) { // in a list that lags it is alive
				ended = append(ended, k.ID)
			}
		}
	}
}

// Run ends keys that a restore has brought back to life. A crash leaves some of
// them alive, and the command is run again: a key that has ended stays so.
func (c *keyRevokeAll) Run(ctx context.Context, d *deployment) error {
	if c.Merchant != "" {
		return c.ofMerchant(ctx, d)
	}
	a, ok := d.platform.(*account)
	if !ok {
		return errors.New("keys of a stack on this machine are not restored: remit keys revoke ends each")
	}
	store, err := table(a, "ApiKeysTableName", dynamo.NewAPIKeys)
	if err != nil {
		return err
	}
	keys, err := store.All(ctx)
	if err != nil {
		return err
	}
	if c.EndedIn == a.outputs["ApiKeysTableName"] {
		return fmt.Errorf("--ended-in %s is the table itself: say the one that was in use before, and with --table keys=NAME the "+
			"restored one until the stack uses it", c.EndedIn)
	}
	consequences := fmt.Sprintf("Every key of table %s is refused from now on, at the latest %s seconds after: no merchant can "+
		"order payments before it has a new one (remit keys issue). This cannot be undone.", a.outputs["ApiKeysTableName"], d.keyCache)
	if c.EndedIn != "" {
		if keys, err = dynamo.OpenAPIKeys(a.aws, c.EndedIn).All(ctx); err != nil {
			return err
		}
		consequences = fmt.Sprintf("Keys that table %s knows as revoked or expiring end in table %s as well. This cannot be undone.",
			c.EndedIn, a.outputs["ApiKeysTableName"])
	}
	if err := d.agree(c.Yes, consequences); err != nil {
		return err
	}
	ended, now := []string{}, time.Now()
	for _, k := range keys {
		if c.EndedIn == "" {
			k.RevokedAt, k.ExpiresAt = now, time.Time{}
		}
		if k.RevokedAt.IsZero() && k.ExpiresAt.IsZero() {
			continue
		}
		err := store.End(ctx, k)
		if errors.Is(err, apikey.ErrNotFound) {
			continue // made since, so the restored table does not have it
		}
		if err != nil {
			return err
		}
		ended = append(ended, k.ID)
	}
	return d.show(map[string]any{"ended": ended}, fmt.Sprintf("%d keys end\n%s", len(ended), strings.Join(ended, "\n")))
}
