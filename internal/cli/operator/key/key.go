// Package key has the commands for merchants' API keys.
package key

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Commands is `remit keys`.
type Commands struct {
	Create    change.Command[keyCreate]    `cmd:"" help:"Make a merchant and its first API key." example:"'Acme Ltd'"`
	Issue     change.Command[keyIssue]     `cmd:"" help:"Give a merchant another API key." example:"mer_1 --label x"`
	List      keyList                      `cmd:"" help:"List a merchant's keys." example:"mer_1"`
	Revoke    change.Command[keyRevoke]    `cmd:"" help:"End a key at once." example:"mer_1 key_1"`
	RevokeAll change.Command[keyRevokeAll] `cmd:"" help:"End every key, or a merchant's." example:"--merchant mer_1"`
}

type keyCreate struct {
	restrictions
	Name string `arg:"" help:"The merchant's name."`
}

// Change makes the key with the operator's rights, so it works also where strangers may not make keys.
func (c keyCreate) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	r, rights, err := c.request(ctx, d)
	return change.Change{
		Consequences: fmt.Sprintf("This makes merchant %q in stack %s, with a %s key. It may do: %s.", c.Name, d.Stack,
			d.Mode, rights),
		Apply: func(ctx context.Context) (change.Answer, error) {
			made, err := registry(d).Create(ctx, c.Name, r)
			return keyAnswer(made, rights, err)
		},
	}, err
}

func registry(d *deployed.Deployment) *apikey.Registry {
	return &apikey.Registry{Store: d.Keys, Mode: apikey.Mode(d.Mode), Now: time.Now, Random: rand.Reader}
}

var merchantID = regexp.MustCompile("^mer_[0-9A-Za-z]{16}$")

// acting returns an unstored key with all rights, to act in a merchant's place. Without keys, it is known by its name.
func acting(ctx context.Context, d *deployed.Deployment, merchant, name string) (apikey.Key, error) {
	keys, err := d.KeysOf(ctx, merchant)
	switch {
	case err == nil:
		name = keys[0].MerchantName
	case name == "" || !errors.Is(err, deployed.ErrNoMerchant):
		return apikey.Key{}, err
	case !merchantID.MatchString(merchant):
		return apikey.Key{}, fmt.Errorf("%q is no merchant's id; give mer_ and 16 letters or digits", merchant)
	default:
		err = apikey.CheckName(name)
	}
	return apikey.Key{MerchantID: merchant, MerchantName: name, Grant: apikey.Full()}, err
}

func keyAnswer(made apikey.Minted, rights string, err error) (change.Answer, error) {
	answer := struct {
		APIKey     string `json:"api_key"`
		MerchantID string `json:"merchant_id"`
		apikey.Public
	}{made.Secret.Reveal(), made.Key.MerchantID, made.Key.Public()}
	return change.Answered(err, answer, fmt.Sprintf("%s\nmerchant %s. May do: %s. The key is not shown again.",
		answer.APIKey, answer.MerchantID, rights))
}

type restrictions struct {
	Label        string         `help:"The merchant's words for the key."`
	Scopes       []apikey.Scope `enum:"payments:write,payments:read,webhooks,keys,recipients,payments:propose,payments:approve" help:"What it may do: ${enum}. Absent: everything, except keys if the key has limits."`
	Asset        string         `help:"The only asset that it pays, usdc@base or eip155:…; absent: any."`
	MaxAmount    token.Amount   `help:"Largest payment, in the token's smallest unit; 0 for any."`
	DailyAmount  token.Amount   `help:"Most that it may pay in a UTC day; 0 for any."`
	DailyCount   uint64         `placeholder:"N" help:"Most payments in a UTC day; 0 for any."`
	ApproveAbove token.Amount   `help:"Above it the key pays from approved proposals only; 0: it pays any itself."`
	RepeatGuard  time.Duration  `help:"How long it pays an amount to a recipient only once, 1m to 168h; 0: no guard."`
	Recipients   string         `enum:"any,book" default:"any" help:"Whom it may pay: anybody, or the address book."`
	ExpiresIn    time.Duration  `help:"How long it works, such as 720h; 0 for no end."`
}

// request returns the flags as a request and the rights of its key, or an error that names the invalid flag.
func (r restrictions) request(ctx context.Context, d *deployed.Deployment) (
	request apikey.KeyRequest, rights string, err error) {
	limits := apikey.Grant{Maximum: r.MaxAmount, Daily: apikey.Limit{Amount: r.DailyAmount, Count: r.DailyCount},
		Book: r.Recipients == "book", Guard: uint64(r.RepeatGuard / time.Second), ApproveAbove: r.ApproveAbove}
	request = apikey.KeyRequest{Label: r.Label, Scopes: r.Scopes, Life: r.ExpiresIn, Limits: limits}
	if request.Limits.HasAmounts() || r.Asset != "" || d.Rail != "" {
		on, err := d.Named(ctx, r.Asset)
		if err != nil {
			return request, "", err
		}
		request.Limits.Asset = on.On.Coin
	}
	switch {
	case r.DailyCount > apikey.MaxCount:
		return request, "", fmt.Errorf("--daily-count is too high; use at most %d", apikey.MaxCount)
	case r.RepeatGuard != 0 && (limits.Guard < apikey.MinGuard || limits.Guard > apikey.MaxGuard):
		return request, "", errors.New("--repeat-guard is out of bounds; use 1m to 168h, or 0 for none")
	case r.ExpiresIn < 0:
		return request, "", errors.New("--expires-in is negative; use 0 or more")
	}
	if err := apikey.CheckName(r.Label); r.Label != "" && err != nil {
		return request, "", fmt.Errorf("--label: %w", err)
	}
	var k apikey.Key
	err = request.Restrict(apikey.Key{Grant: apikey.Full()}, &k)
	rails, _ := d.Rails(ctx) // or amounts are shown without their token
	return request, mayDo(k.Public().Permissions, rails), err
}

type keyIssue struct {
	restrictions
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
	Name     string `help:"The merchant's name, if a restored table has none of its keys."`
}

func (c keyIssue) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	r, rights, err := c.request(ctx, d)
	by, unknown := acting(ctx, d, c.Merchant, c.Name)
	return change.Change{
		Consequences: fmt.Sprintf("This gives %s (%s) in stack %s another API key, in %s mode. It may do: %s.",
			by.MerchantID, by.MerchantName, d.Stack, d.Mode, rights),
		Apply: func(ctx context.Context) (change.Answer, error) {
			made, err := registry(d).Issue(ctx, by, r, func(ctx context.Context, k apikey.Key) error {
				return d.Publisher().Announce(ctx, d.Owner(c.Merchant), webhook.KeyCreated, k.CreatedAt, k.Public())
			})
			return keyAnswer(made, rights, err)
		},
	}, cmp.Or(err, unknown)
}

// mayDo writes rights, with amounts in whole tokens too if one of the rails has their asset.
func mayDo(p apikey.Permissions, rails []*deployed.Deployment) string {
	text, amount := "everything", func(a token.Amount) string { return a.String() + " smallest units" }
	if len(p.Scopes) < len(apikey.AllScopes()) {
		text = strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Scopes), " ", ", "), "[]")
	}
	for _, on := range rails {
		if p.Asset != nil && on.On.Coin.String() == *p.Asset {
			amount = func(a token.Amount) string { return fmt.Sprintf("%s (%s)", a, on.Coins(a)) }
		}
	}
	for i, limit := range []*token.Amount{p.MaxAmount, p.DailyAmount, p.Above} {
		if limit != nil {
			text += ", " + []string{"max", "daily", "approval above"}[i] + " " + amount(*limit)
		}
	}
	add(&text, "%d a day", p.DailyCount)
	add(&text, "guard %d s", p.Guard)
	add(&text, "%s", p.Asset)
	if p.Recipients == "book" {
		text += ", book"
	}
	add(&text, "%q", p.Label)
	return text
}

func add[T any](text *string, format string, right *T) {
	if right != nil {
		*text += fmt.Sprintf(", "+format, *right)
	}
}

type keyList struct {
	deployed.Target
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
}

func (c *keyList) Run(ctx context.Context, d *deployed.Deployment) error {
	keys, err := d.KeysOf(ctx, c.Merchant)
	if err != nil {
		return err
	}
	rows := []apikey.Public{}
	rails, _ := d.Rails(ctx) // as in request
	var b strings.Builder
	fmt.Fprintf(&b, keyRow, "ID", "PREFIX", "LAST4", "CREATED", "LAST USED", "EXPIRES", "REVOKED", "MAY DO")
	for _, k := range keys {
		rows = append(rows, k.Public())
		fmt.Fprintf(&b, keyRow, k.ID, k.Prefix, k.Last4, deployed.Stamp(k.CreatedAt), deployed.Stamp(k.LastUsedAt),
			deployed.Stamp(k.ExpiresAt), deployed.Stamp(k.RevokedAt), mayDo(k.Public().Permissions, rails))
	}
	return d.Show(rows, b.String())
}

const keyRow = "%-18s %-26s %-5s %-20s  %-20s  %-20s  %-20s  %s\n"

type keyRevoke struct {
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
	ID       string `arg:"" help:"The key's id, key_…"`
}

func (c keyRevoke) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	by, err := acting(ctx, d, c.Merchant, "")
	_, unknown := d.Keys.Named(ctx, c.Merchant, c.ID)
	return change.Write(fmt.Sprintf("Requests with key %s of %s are refused from now on, at the latest %s seconds "+
		"after. This cannot be undone.", c.ID, c.Merchant, d.KeyCache), "revoked", func(ctx context.Context) error {
		_, err := registry(d).Revoke(ctx, by, c.ID)
		return err
	}), cmp.Or(err, unknown)
}

type keyRevokeAll struct {
	Merchant string `placeholder:"MER" xor:"which" help:"Only the keys of this merchant, mer_…."`
	EndedIn  string `placeholder:"TABLE" xor:"which" help:"The table before a restore: end keys that ended there."`
}

// Change ends restored keys, or a merchant's. After a crash some still work: run it again, which skips ended keys.
func (c keyRevokeAll) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if c.Merchant != "" {
		return c.ofMerchant(ctx, d)
	}
	if d.Account == nil {
		return none, errors.New("a stack on this machine has no restored keys; run remit keys revoke for each key")
	}
	name := d.Account.Outputs["ApiKeysTableName"]
	if c.EndedIn == name {
		return none, fmt.Errorf("--ended-in %s is the table itself; name the table in use before, and with --table "+
			"keys=NAME the restored one until the stack uses it", c.EndedIn)
	}
	table, now := dynamo.NewAPIKeys(dynamo.Client(d.Account.AWS), name), time.Now()
	source := table
	consequences := fmt.Sprintf("Every key of table %s is refused from now on, at the latest %s seconds after: no "+
		"merchant can pay before it has a new one (remit keys issue). This cannot be undone.", name, d.KeyCache)
	if c.EndedIn != "" {
		source = dynamo.NewAPIKeys(dynamo.Client(d.Account.AWS), c.EndedIn)
		consequences = fmt.Sprintf("Keys that are revoked or expire in table %s end in %s, for good.", c.EndedIn, name)
	}
	_, err = source.All(ctx) // or it cannot be read
	return change.Change{Consequences: consequences, Apply: func(ctx context.Context) (change.Answer, error) {
		keys, err := source.All(ctx) // again: keys may have been made since
		if err != nil {
			return change.Answer{}, err
		}
		ended := []string{}
		for _, k := range keys {
			if c.EndedIn == "" {
				k.RevokedAt, k.ExpiresAt = now, time.Time{}
			}
			if k.RevokedAt.IsZero() && k.ExpiresAt.IsZero() {
				continue
			}
			switch err := table.End(ctx, k); {
			case err == nil:
				ended = append(ended, k.ID)
			case !errors.Is(err, apikey.ErrNotFound): // which was made since: the restored table lacks it
				return change.Answer{}, err
			}
		}
		return endedAnswer(ended), nil
	}}, err
}

func endedAnswer(ended []string) change.Answer {
	return change.Answer{Text: fmt.Sprintf("keys that end: %d\n%s", len(ended), strings.Join(ended, "\n"))}
}

// ofMerchant revokes the merchant's keys until none is valid: a key can make others until its revocation takes effect.
func (c keyRevokeAll) ofMerchant(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	by, err := acting(ctx, d, c.Merchant, "")
	consequences := fmt.Sprintf("Every key of %s (%s) in stack %s is refused from now on, at the latest %s seconds "+
		"after: it needs a new one (remit keys issue). This cannot be undone.", by.MerchantID, by.MerchantName, d.Stack,
		d.KeyCache)
	return change.Change{Consequences: consequences, Apply: func(ctx context.Context) (change.Answer, error) {
		for ended := []string{}; ; {
			keys, err := d.Keys.List(ctx, c.Merchant)
			if err != nil {
				return change.Answer{}, err
			}
			keys = slices.DeleteFunc(keys, func(k apikey.Key) bool { return !k.Valid(time.Now()) })
			if len(keys) == 0 {
				return endedAnswer(ended), nil
			}
			for _, k := range keys {
				if _, err := registry(d).Revoke(ctx, by, k.ID); err != nil {
					return change.Answer{}, err
				}
				if !slices.Contains(ended, k.ID) { // in a list that lags it is alive
					ended = append(ended, k.ID)
				}
			}
		}
	}}, err
}
