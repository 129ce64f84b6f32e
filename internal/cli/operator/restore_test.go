package operator_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// TestPauseAll pauses every wallet of a restored table, also wallets that the table does not know and wallets whose
// pause would end by itself. A wallet with an unreadable record is named and stays paused.
func TestPauseAll(t *testing.T) {
	a := operatortest.NewAccount(t)
	restored := schema.Tables{APIKeys: "pause-keys", Payments: "pause-payments", Webhooks: "pause-webhooks"}
	must.OK(t, schema.Create(t.Context(), dynamotest.Client(t), restored))
	own, store := dynamo.NewPayments(dynamotest.Client(t), "operator-payments"), dynamo.NewPayments(dynamotest.Client(t), restored.Payments)
	must.OK(t, store.SetSettings(t.Context(), settings.Default(operatortest.Rail())))
	id := func(i byte) wallet.ID { return wallet.ID{ChainID: 84532, Address: token.Address{2, i}} }
	for i := range byte(3) {
		must.OK(t, store.Register(t.Context(),
			wallet.Registration{ID: id(i), Token: operatortest.Rail().Token.Contract, State: wallet.Active,
				Key: wallet.InSecret, Since: time.Now()}))
	}
	before := must.Get(own.Wallets(t.Context(), operatortest.Rail().Coin()))(t)
	gone := wallet.ID{ChainID: 84532, Address: token.Address{1}} // it was not registered when it was opened
	unread := id(9)
	for _, w := range []wallet.Wallet{
		{ID: id(0), NextNonce: 7, Ceiling: 71, Paused: wallet.OutOfGas},
		{ID: id(1), NextNonce: 3, Ceiling: 67, Paused: "audit"}, {ID: gone, NextNonce: 1, Ceiling: 65}, {ID: unread},
	} {
		must.OK(t, store.Open(t.Context(), w, operatortest.Rail().Token.Contract))
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	for _, item := range []map[string]types.AttributeValue{
		{"pk": text("wallet#84532#" + unread.Address.String()), "sk": text("wallet")}, // without a nonce
		{"pk": text("wallets#84532"), "sk": text("wallet#nobody's")},
	} {
		must.Get(dynamotest.Client(t).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &restored.Payments, Item: item}))(t)
	}
	out, err := a.Remit("wallet pause --all --reason restore --table payments=pause-payments")
	if !errors.Is(err, change.ErrDeclined) || out != "" {
		t.Errorf("without consent: %q, %v", out, err)
	}
	if w, _ := store.Wallet(t.Context(), gone); w.Paused != "" {
		t.Error("a wallet is paused without consent")
	}
	for range 2 { // a command that crashed is run again
		if out, err := a.Remit("wallet pause --all --yes --reason restore --table payments=pause-payments"); err != nil ||
			strings.Count(out, "paused: restore") != 4 ||
			!strings.Contains(out, unread.Address.String()+" is unreadable") {
			t.Errorf("%q, %v", out, err)
		}
	}
	if out, _ := a.Remit("wallet list --table payments=pause-payments"); strings.Count(out, "not read") != 6 {
		t.Errorf("what was never read, and nothing else, is shown so: %s", out)
	}
	if got, err := dynamotest.Client(t).GetItem(t.Context(),
		&dynamodb.GetItemInput{TableName: &restored.Payments, Key: map[string]types.AttributeValue{
			"pk": text("wallet#84532#" + unread.Address.String()), "sk": text("wallet"),
		}}); err != nil || got.Item["paused"] == nil {
		t.Errorf("a wallet that cannot be read is not paused: %v, %v", got, err)
	}
	const restore = "restore (by arn:aws:iam::123456789012:user/ada at 2" // and the rest of the time
	for _, c := range []struct {
		why    string
		id     wallet.ID
		reason string
		next   uint64
	}{
		{"a pause that would end by itself is an operator's now", id(0), restore, 7},
		{"another reason stays", id(1), "audit", 3},
		{"a wallet that the table does not know is behind the chain", id(2), restore, 0},
		{"a wallet whose key is gone", gone, restore, 1},
	} {
		if w, err := store.Wallet(t.Context(), c.id); err != nil || !strings.HasPrefix(w.Paused, c.reason) || w.NextNonce != c.next {
			t.Errorf("%s: %+v, %v", c.why, w, err)
		}
	}
	if after, err := own.Wallets(t.Context(), operatortest.Rail().Coin()); err != nil || !slices.Equal(after, before) {
		t.Errorf("the stack's own table was changed: %v, %v", after, err)
	}
	for line, want := range map[string]string{
		"wallet pause --yes": "give the address of one wallet, or --all",
		"wallet resume --all --yes " + gone.Address.String():                             "give the address of one wallet, or --all",
		"wallet pause --all --yes --table wallets=pause-wallets":                         "use keys, payments",
		"wallet resume --yes --table payments=pause-payments " + unread.Address.String(): "cannot be read",
	} {
		if _, err := a.Remit(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("remit %s: %v, want %q", line, err, want)
		}
	}
	for _, of := range []wallet.ID{id(0), id(1), id(2), gone} {
		must.OK(t, store.Pause(t.Context(), of, wallet.Suspicion+": remit recover is at work"))
	}
	if out, err := a.Remit("wallet resume --all --yes --table payments=pause-payments"); err != nil ||
		!strings.HasPrefix(out, "no pause to end") || strings.Count(out, "; run remit recover (") != 4 {
		t.Errorf("before the recovery ended: %q, %v", out, err)
	}
	for _, which := range []string{id(1).Address.String(), "--all"} {
		must.OK(t, store.Pause(t.Context(), id(1), wallet.Suspicion))
		must.Get(a.Remit("wallet pause --yes --reason stolen --table payments=pause-payments " + which))(t)
		if w := must.Get(store.Wallet(t.Context(), id(1)))(t); !w.Suspect() || !strings.Contains(w.Paused, "stolen") {
			t.Errorf("pause %s: a wallet under suspicion, whose reservations may be paid already, is paused for %q", which, w.Paused)
		}
	}
}

// TestRevokedKeysStayRevoked restores keys to a moment before one was revoked and one rotated.
func TestRevokedKeysStayRevoked(t *testing.T) {
	a := operatortest.NewAccount(t)
	for _, name := range []string{"ends-before", "ends-after"} {
		must.OK(t, schema.Create(t.Context(), dynamotest.Client(t),
			schema.Tables{APIKeys: name, Payments: "ends-payments", Webhooks: "ends-webhooks"}))
	}
	damaged, restored := dynamo.NewAPIKeys(dynamotest.Client(t), "ends-before"), dynamo.NewAPIKeys(dynamotest.Client(t), "ends-after")
	registry := &apikey.Registry{Store: damaged, Mode: apikey.Test, Now: time.Now, Random: rand.Reader}
	made := map[string]apikey.Minted{}
	for _, name := range []string{"kept", "revoked", "rotated away", "in its overlap"} {
		made[name] = must.Get(registry.Create(t.Context(), name, apikey.KeyRequest{}))(t)
		must.OK(t, restored.Create(t.Context(), made[name].Key))
	}
	must.Get(registry.Revoke(t.Context(), made["revoked"].Key, made["revoked"].Key.ID))(t)
	told := func(context.Context, apikey.Key) error { return nil }
	for name, overlap := range map[string]time.Duration{"rotated away": 0, "in its overlap": time.Hour} {
		must.Get(registry.Rotate(t.Context(), made[name].Key, made[name].Key.ID, overlap, told))(t)
	}
	for _, store := range []*dynamo.APIKeys{damaged, restored} { // other items in the table
		_, _, err := store.AddEntry(t.Context(), recipient.Entry{Merchant: "mer_a", Mode: "test", CreatedAt: time.Now(), ActiveAt: time.Now()})
		must.OK(t, err)
	}
	shortened := apikey.Key{Hash: made["in its overlap"].Key.Hash, ExpiresAt: time.Now().Add(30 * time.Minute)}
	must.OK(t, restored.End(t.Context(), shortened)) // by an operator, meanwhile
	works := func(name string, at time.Time) bool {
		_, err := (&apikey.Authenticator{Keys: restored, Mode: apikey.Test}).Authenticate(t.Context(), made[name].Secret.Reveal(), at)
		return err == nil
	}
	for range 2 { // a command that crashed is run again
		if out, err := a.Remit("keys revoke-all --yes --ended-in ends-before --table keys=ends-after"); err != nil ||
			!strings.HasPrefix(out, "keys that end: 3\n") {
			t.Errorf("%q, %v", out, err)
		}
	}
	now := time.Now()
	for _, c := range []struct {
		name  string
		after time.Duration
		want  bool
	}{{"kept", 0, true}, {"revoked", 0, false}, {"rotated away", 0, false}, {"in its overlap", 0, true},
		{"in its overlap", 45 * time.Minute, false}} {
		if works(c.name, now.Add(c.after)) != c.want {
			t.Errorf("the key that is %s works %v later: %v", c.name, c.after, !c.want)
		}
	}
	if _, err := a.Remit("keys revoke-all --yes --ended-in ends-after --table keys=ends-after"); err == nil ||
		!strings.Contains(err.Error(), "is the table itself") {
		t.Errorf("with the table itself: %v", err)
	}
	kept := made["kept"].Key
	registry.Store = restored
	_, err := registry.Rotate(t.Context(), kept, kept.ID, time.Hour, told)
	if out, stolen := a.Remit("keys revoke-all --yes --table keys=ends-after --merchant " +
		kept.MerchantID); err != nil || stolen != nil || !strings.HasPrefix(out, "keys that end: 2\n") ||
		works("kept", time.Now()) || !works("in its overlap", time.Now()) {
		t.Errorf("every key of a merchant: %q, %v, %v", out, err, stolen)
	}
	if out, err := a.Remit("keys revoke-all --yes --table keys=ends-after"); err != nil ||
		!strings.HasPrefix(out, "keys that end: 5\n") || works("in its overlap", time.Now()) {
		t.Errorf("every key: %q, %v", out, err)
	}
	const issue = "keys issue --yes --table webhooks=ends-webhooks --table keys=ends-after "
	const since = "mer_0123456789abcdef" // whose first key was made after the moment
	for who, flags := range map[string]string{made["kept"].Key.MerchantID: "", since: " --name Shop"} {
		out, err := a.Remit(issue + who + flags)
		key, _, _ := strings.Cut(out, "\n")
		if p, found := (&apikey.Authenticator{Keys: restored, Mode: apikey.Test}).Authenticate(t.Context(), key,
			time.Now()); err != nil || found != nil || p.MerchantID != who {
			t.Errorf("the new key is of %s, not of %s: %v, %v", p.MerchantID, who, err, found)
		}
	}
}
