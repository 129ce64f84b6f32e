package operator_test

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestCommands runs commands one after another, as an operator of a new stack
// does. The key that is imported is in no answer.
func TestCommands(t *testing.T) {
	a := operatortest.NewAccount(t)
	const key, address = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
	file := filepath.Join(t.TempDir(), "key")
	must.OK(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	a.Steps([][3]string{
		{"nothing is written without consent", "wallet import --file " + file, "!nothing was done; answer y to go on, or add --yes"},
		{"a new stack has no wallets", "wallet list --json", "[]"},
		{"the address is all that is shown of a key", "wallet import --yes --file " + file, "Fund it with USDC and gas."},
		{"a key is put in once", "wallet import --yes --file " + file, "!is registered already"},
		{"the wallet has made no payment", "wallet list", address + "  active      not used             0        0                   0  \n"},
		{"and may make no new ones", "wallet drain --yes " + address, "done"},
		{"which the list shows", "wallet list --json", `"state": "draining"`},
		{"until that is undone", "wallet drain --yes --undo --json " + address, `"state": "active"`},
		{"a wallet that is not registered", "wallet drain --yes 0x1111111111111111111111111111111111111111", "!; find it with remit wallet list"},
		{"a pause is for a wallet that has paid", "wallet pause --yes " + address, "!wallet has no record yet"},
		{"a pause without a reason", "wallet pause --yes --reason= " + address, "!--reason is empty"},
		{"a merchant without keys", "keys list mer_1 --json", "[]"},
		{"a payment that does not exist", "payment show pay_1", "!" + store.ErrNotFound.Error()},
		{"whose key it is must be said", "payment show order-1", "!add --merchant"},
		{"a hash that is mistyped", "payment show 0x1111", "!0x1111 is not a transaction hash; use 0x and 64 hex digits"},
		{"nodes that nobody put in", "wallet balance", `!the secret has no value yet; put {"urls":["https://…"]} into it`},
		{"a restricted key", "keys create Acme --yes --scopes webhooks --daily-count 3 --daily-amount 50 --max-amount 7 --recipients " +
			"book --label Till --expires-in 1h", `May do: webhooks, max 7, daily 50, 3 a day, book, "Till". The key is not shown again.`},
		{"limits of a key that manages keys", "keys create Acme --yes --scopes keys --daily-count 3", "!a key with the scope keys has no limits"},
		{"a scope that is none", "keys create Acme --yes --scopes admin", `!--scopes must be one of "payments:write",`},
		{"every scope", "keys create Acme --yes --scopes payments:write,payments:read,webhooks,keys,recipients", "May do: everything."},
		{"no scope in particular", "keys create Acme --yes --scopes=", "May do: everything."},
		{"too many payments", "keys create Acme --yes --daily-count 1000000001", "!--daily-count is too high; use at most 1000000000"},
		{"a life before now", "keys create Acme --yes --expires-in=-1h", "!--expires-in is negative; use 0 or more"},
		{"what was done is in the audit log, with who did it", "audit-log",
			"done      arn:aws:iam::123456789012:user/ada  remit wallet import --yes --file"},
		{"a key that there is not", "keys revoke --yes mer_1 key_1", "!no such API key; find the key with remit keys list"},
		{"and what was refused", "audit-log", "not done  arn:aws:iam::123456789012:user/ada  remit keys revoke --yes mer_1 key_1"},
		{"a merchant that there is not", "merchants suspend mer_1 --reason=x --yes",
			`!no merchant "mer_1" has a key; find the merchant with remit merchants list`},
		{"what was not agreed to is not in it", "audit-log --since 1ns --json", "[]"},
	})
	a.Outputs = map[string]string{"WebhooksTableName": ""}
	a.Steps([][3]string{{"an output that an older template lacks", "keys issue mer_1 --yes",
		"!stack remit has no output WebhooksTableName; deploy this version's template first"}})
	if strings.Contains(a.Printed, key[2:]) {
		t.Error("a command shows the key")
	}
	if !strings.Contains(a.Secrets["remit/wallets/"+address], key[2:]) {
		t.Errorf("the secrets are of %d wallets, and not of the imported one", len(a.Secrets))
	}
}

// TestMerchants looks after a merchant, and after recipients that nobody pays.
func TestMerchants(t *testing.T) {
	a := operatortest.NewAccount(t)
	out, err := a.Remit("keys create Acme --yes --json")
	var made struct {
		Key      string `json:"api_key"`
		ID       string `json:"id"`
		Merchant string `json:"merchant_id"`
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &made)); err != nil || !strings.HasPrefix(made.Key, "remit_test_") {
		t.Fatal(err, out)
	}
	const payee = " 0x1111111111111111111111111111111111111111"
	m := made.Merchant
	a.Steps([][3]string{
		{"the merchant", "merchants list", m + "   Acme"},
		{"with its key", "merchants show " + m, "everything"},
		{"a suspension is agreed to", "merchants suspend " + m + " --reason=stolen", "!add --yes"},
		{"a suspension", "merchants suspend " + m + " --reason=stolen --yes", "suspended: stolen"},
		{"that ends", "merchants resume " + m + " --yes", "active"},
		{"a limit of its own", "merchants limit " + m + " --max-amount 7 --daily-amount 9 --yes", " 7                     9 "},
		{"limits that contradict each other", "merchants limit " + m + " --max-amount 9 --daily-amount 7 --yes",
			"!--daily-amount is below --max-amount"},
		{"and the stack's again", "merchants limit " + m + " --yes --json", `"max_amount": null`},
		{"what was done", "audit-log", "merchants suspend " + m + " --reason=stolen --yes"},
		{"a key that ends", "keys revoke --yes " + m + " " + made.ID, "revoked"},
		{"but no other", "keys revoke --yes " + m + " key_zzzzzzzzzzzz", "!no such API key"},
		{"a merchant that never had a key", "keys issue --yes mer_none", "!no such API key"},

		{"a recipient that is paid no more", "deny add --yes --reason court" + payee, "is not paid"},
		{"is listed with the reason", "deny list", "court"},
		{"as JSON too", "deny list --json", `"reason": "court"`},
		{"and may be paid again", "deny remove --yes" + payee, "may be paid"},
		{"a denial says why", "deny add --yes --reason=" + payee, "!with --reason why it is not paid"},
	})
}

// TestCreate makes wallets by two commands at once, and by a command that stops after it has stored
// the key: no key is lost, none is read, and no wallet is registered without its key.
func TestCreate(t *testing.T) {
	a := operatortest.NewAccount(t)
	must.OK(t, schema.Create(t.Context(), dynamotest.Client(t),
		schema.Tables{APIKeys: "create-keys", Payments: "create-payments", Webhooks: "create-webhooks"}))
	tables := dynamo.NewPayments(dynamotest.Client(t), "create-payments")
	const create = "wallet create --yes --table payments=create-payments"
	registered := func() (all []string) {
		wallets := must.Get(tables.Wallets(t.Context(), 84532))(t)
		for _, r := range wallets {
			if all = append(all, r.Address.String()); r.State != wallet.Active || r.Key != wallet.InSecret || r.Opened ||
				a.Secrets["remit/wallets/"+all[len(all)-1]] == "" {
				t.Errorf("%+v, with a secret: %t", r, a.Secrets["remit/wallets/"+all[len(all)-1]] != "")
			}
		}
		return all
	}
	a.Breaks = "CreateSecret"
	if out, err := a.Remit(create); err == nil || out != "" || !strings.Contains(err.Error(), "run remit wallet create in five minutes") ||
		len(registered()) != 0 {
		t.Errorf("while it is not known whether the key is stored: %q, %v", out, err)
	}
	stored := slices.Collect(maps.Keys(a.Secrets))
	if len(stored) != 1 {
		t.Fatalf("%d keys are stored", len(stored))
	}
	if out, err := a.Remit(create); err != nil || len(registered()) != 2 || len(a.Secrets) != 2 {
		t.Errorf("at once after it, when another operator's command may be at work: %q, %v", out, err)
	}
	a.Breaks = "CreateSecret"
	_, _ = a.Remit(create)
	a.Made = time.Now().Add(-2 * time.Minute)
	if out, err := a.Remit(create); err != nil || len(registered()) != 3 || len(a.Secrets) != 3 {
		t.Errorf("two minutes after another: %q, %v, %d wallets, %d keys", out, err, len(registered()), len(a.Secrets))
	}
	if out, err := a.Remit(create); err != nil || len(registered()) != 4 || len(a.Secrets) != 4 {
		t.Errorf("then: %q, %v", out, err)
	}
}

// TestExport: every payment of a time, whole, and in two forms.
func TestExport(t *testing.T) {
	l := operatortest.NewLedger(t)
	for _, row := range []struct {
		line string
		want []uint64 // amounts, in any order
	}{
		{"export", []uint64{5, 6, 7, 9, 1_500_000}},
		{"export --merchant mer_1", []uint64{5, 6, 7, 9, 1_500_000}},
		{"export --merchant mer_2", nil},
		{"export --since 2026-01-03 --until 2026-01-04", []uint64{6, 7}},
		{"export --merchant mer_1 --since 2026-01-03 --until 2026-01-04", []uint64{6, 7}},
		{"export --since 2026-01-05", []uint64{9, 1_500_000}},
	} {
		text := must.Get(l.Run(nil, strings.Fields(row.line)...))(t)
		var amounts []uint64
		for line := range strings.Lines(text) {
			var p struct {
				Amount   uint64
				Decimal  string  `json:"amount_decimal"`
				Merchant string  `json:"merchant_id"`
				Fee      *uint64 `json:"network_fee"`
			}
			must.OK(l, json.Unmarshal([]byte(line), &p))
			amounts = append(amounts, p.Amount)
			if p.Merchant != "mer_1" || p.Amount == 1_500_000 && p.Decimal != "1.5" || (p.Fee == nil) != (p.Amount == 9) {
				t.Errorf("remit %s: %s", row.line, line)
			}
		}
		slices.Sort(amounts)
		if !slices.Equal(amounts, row.want) {
			t.Errorf("remit %s: amounts %v, want %v", row.line, amounts, row.want)
		}
		text, err := l.Run(nil, append(strings.Fields(row.line), "--csv")...)
		rows, parse := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err = errors.Join(err, parse); err != nil || len(rows) != len(row.want)+1 ||
			!strings.HasPrefix(text, "id,merchant_id,idempotency_key,paid_by,amount_decimal,tx_hash,status,amount,") {
			t.Errorf("remit %s --csv: %v\n%s", row.line, err, text)
		}
		if len(row.want) > 0 && !strings.Contains(text, ",'=1+1,{},") {
			t.Errorf("remit %s --csv: a spreadsheet would take the reference for a formula:\n%s", row.line, text)
		}
	}
	if _, err := l.Run(nil, "export", "--since", "2026-01-05", "--until", "2026-01-04"); err == nil ||
		!strings.Contains(err.Error(), "is before --since") {
		t.Errorf("no time at all: %v", err)
	}
}

// stolen are keys of which the first makes another one just before it is revoked.
type stolen struct {
	*memory.APIKeys
	rotate func()
}

func (s *stolen) Revoke(ctx context.Context, merchant string, hash apikey.Hash, at time.Time) (apikey.Key, error) {
	if rotate := s.rotate; rotate != nil {
		s.rotate = nil
		rotate()
	}
	return s.APIKeys.Revoke(ctx, merchant, hash, at)
}

// TestAThiefsKeysEnd: revoke-all ends every key of a merchant, even one that is made while it runs.
func TestAThiefsKeysEnd(t *testing.T) {
	keys := &stolen{APIKeys: new(memory.APIKeys)}
	registry := apikey.NewRegistry(keys, apikey.Test, time.Now, rand.Reader)
	made := must.Get(registry.Create(t.Context(), "Acme", apikey.KeyRequest{}))(t)
	keys.rotate = func() {
		must.Get(registry.Rotate(t.Context(), made.Key, made.Key.ID, time.Hour, func(context.Context, apikey.Key) error { return nil }))(t)
	}
	local := operatortest.Empty(t, stack.Config{})
	local.Keys = keys
	out, err := operatortest.Local(t.Context(), local, "keys", "revoke-all", "--merchant", made.Key.MerchantID, "--yes")
	if err != nil || !strings.HasPrefix(out, "2 keys end\n") {
		t.Errorf("%q, %v", out, err)
	}
}
