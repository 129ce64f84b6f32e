package operator

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"remit/internal/apikey"
	"remit/internal/dynamo"
)

// Keys is `remit keys`.
type Keys struct {
	Create    keyCreate    `cmd:"" help:"Make a merchant and its first API key. The key is shown once."`
	List      keyList      `cmd:"" help:"List a merchant's keys."`
	Revoke    keyRevoke    `cmd:"" help:"End a key at once."`
	RevokeAll keyRevokeAll `cmd:"" help:"After a restore, end every key, or those that another table knows as ended."`
}

type keyCreate struct {
	Target
	Name     string `arg:"" help:"The merchant's name."`
	Merchant string `placeholder:"mer_…" help:"A merchant who is there already and has lost its keys: make one more for it."`
	Yes      bool   `help:"Do not ask."`
}

// Run makes the key with the operator's rights, so it works also where KeyCreation
// closes the API's endpoint.
func (c *keyCreate) Run(ctx context.Context, d *deployment) error {
	consequences := fmt.Sprintf("This makes a merchant %q in stack %s, with an API key that can order payments in %s mode.", c.Name, d.Stack, d.mode)
	if c.Merchant != "" {
		consequences = fmt.Sprintf("This makes an API key in stack %s that can order payments in %s mode. Whoever has it is merchant %s: it sees that merchant's payments.", d.Stack, d.mode, c.Merchant)
	}
	if err := d.agree(c.Yes, consequences); err != nil {
		return err
	}
	create := d.createKey
	if c.Merchant != "" {
		create = func(ctx context.Context, name string) ([]byte, error) { return d.issueKey(ctx, c.Merchant, name) }
	}
	answer, err := create(ctx, c.Name)
	if err != nil {
		return err
	}
	var key struct {
		Key      string `json:"api_key"`
		Merchant string `json:"merchant_id"`
	}
	if err := json.Unmarshal(answer, &key); err != nil {
		return err
	}
	return d.show(json.RawMessage(answer), fmt.Sprintf("%s\nmerchant %s. The key is not shown again.", key.Key, key.Merchant))
}

// createKey invokes the function create-api-key with an event as API Gateway sends
// it. IAM guards the invocation.
func (a *account) createKey(ctx context.Context, merchant string) ([]byte, error) {
	name, err := a.output("CreateApiKeyFunctionName")
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]string{"merchant_name": merchant})
	if err != nil {
		return nil, err
	}
	event, err := json.Marshal(map[string]any{
		"httpMethod": "POST", "path": "/create-api-key", "resource": "/create-api-key",
		"headers": map[string]string{"Content-Type": "application/json"}, "body": string(body),
	})
	if err != nil {
		return nil, err
	}
	done, err := lambda.NewFromConfig(a.aws).Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, Payload: event})
	if err != nil {
		return nil, fmt.Errorf("invoking %s: %w", name, err)
	}
	var answer struct {
		StatusCode int    `json:"statusCode"`
		Body       string `json:"body"`
	}
	if err := json.Unmarshal(done.Payload, &answer); err != nil || answer.StatusCode != 201 {
		return nil, fmt.Errorf("%s answered %d %s", name, answer.StatusCode, answer.Body)
	}
	return []byte(answer.Body), nil
}

// issueKey stores a key of a merchant who is there already.
func (d *deployment) issueKey(ctx context.Context, merchant, name string) ([]byte, error) {
	store, err := d.keys()
	if err != nil {
		return nil, err
	}
	made, err := apikey.NewRegistry(store, apikey.Mode(d.mode), time.Now, rand.Reader).Issue(ctx, merchant, name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"api_key": made.Secret.Reveal(), "id": made.Key.ID, "merchant_id": made.Key.MerchantID})
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
	type row struct {
		ID      string `json:"id"`
		Prefix  string `json:"prefix"`
		Last4   string `json:"last4"`
		Created stamp  `json:"created_at"`
		Used    stamp  `json:"last_used_at"`
		Expires stamp  `json:"expires_at"`
		Revoked stamp  `json:"revoked_at"`
	}
	rows := []row{}
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %-26s %-5s %-20s  %-20s  %-20s  %s\n", "ID", "PREFIX", "LAST4", "CREATED", "LAST USED", "EXPIRES", "REVOKED")
	for _, k := range keys {
		r := row{k.ID, k.Prefix, k.Last4, stamp(k.CreatedAt), stamp(k.LastUsedAt), stamp(k.ExpiresAt), stamp(k.RevokedAt)}
		rows = append(rows, r)
		fmt.Fprintf(&b, "%-18s %-26s %-5s %-20s  %-20s  %-20s  %s\n", r.ID, r.Prefix, r.Last4, r.Created, r.Used, r.Expires, r.Revoked)
	}
	return d.show(rows, b.String())
}

type keyRevoke struct {
	Target
	Merchant string `arg:"" help:"The merchant's id, mer_…"`
	ID       string `arg:"" help:"The key's id, key_…"`
	Yes      bool   `help:"Do not ask."`
}

// Run revokes a key.
func (c *keyRevoke) Run(ctx context.Context, d *deployment) error {
	store, err := d.keys()
	if err != nil {
		return err
	}
	if err := d.agree(c.Yes, fmt.Sprintf("Requests with key %s of %s are refused from now on, at the latest %s seconds after. This cannot be undone.", c.ID, c.Merchant, d.keyCache)); err != nil {
		return err
	}
	key, err := apikey.NewRegistry(store, apikey.Mode(d.mode), time.Now, nil).Revoke(ctx, c.Merchant, c.ID)
	if err != nil {
		return err
	}
	return d.show(map[string]any{"id": key.ID, "revoked_at": stamp(key.RevokedAt)}, fmt.Sprint("revoked ", stamp(key.RevokedAt)))
}

type keyRevokeAll struct {
	Target
	EndedIn string `placeholder:"TABLE" help:"The table that was in use before the restore: end only the keys that are revoked or expire there, as they do there."`
	Yes     bool   `help:"Do not ask."`
}

// Run ends keys that a restore has brought back to life. A crash leaves some of
// them alive, and the command is run again: a key that has ended stays so.
func (c *keyRevokeAll) Run(ctx context.Context, d *deployment) error {
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
		return fmt.Errorf("--ended-in %s is the table itself: say the one that was in use before, and with --table keys=NAME the restored one until the stack uses it", c.EndedIn)
	}
	consequences := fmt.Sprintf("Every key of table %s is refused from now on, at the latest %s seconds after: no merchant can order payments before it has a new one (remit keys create --merchant). This cannot be undone.", a.outputs["ApiKeysTableName"], d.keyCache)
	if c.EndedIn != "" {
		if keys, err = dynamo.NewAPIKeys(dynamodb.NewFromConfig(a.aws), c.EndedIn).All(ctx); err != nil {
			return err
		}
		consequences = fmt.Sprintf("Keys that table %s knows as revoked or expiring end in table %s as well. This cannot be undone.", c.EndedIn, a.outputs["ApiKeysTableName"])
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
