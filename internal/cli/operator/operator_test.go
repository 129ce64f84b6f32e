package operator_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/operator"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestCommands runs commands as an operator of a new stack does. The key that is imported is in no answer.
func TestCommands(t *testing.T) {
	a := operatortest.NewAccount(t)
	const key, address = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
	file := filepath.Join(t.TempDir(), "key")
	must.OK(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	a.Play(map[string]string{"file": file, "address": address, "not found": store.ErrNotFound.Error()})
	a.Outputs = map[string]string{"WebhooksTableName": ""}
	a.Steps([][3]string{{"an output that an older template lacks", "keys issue mer_1 --yes",
		"!stack remit has no output WebhooksTableName; deploy this version's template first"}})
	t.Setenv("REMIT_STACK", "")
	a.Steps([][3]string{{"an unset variable, which would mean any stack", "wallet list", "!the stack's name is empty"}})
	if strings.Contains(a.Printed, key[2:]) {
		t.Error("a command shows the key")
	}
	if !strings.Contains(a.Secrets["remit/wallets/"+address], key[2:]) {
		t.Errorf("the secrets are of %d wallets, and not of the imported one", len(a.Secrets))
	}
}

func TestMerchants(t *testing.T) {
	a := operatortest.NewAccount(t)
	must.OK(t, dynamo.NewPayments(dynamotest.Client(t), "operator-payments").SetSettings(t.Context(), settings.Default(operatortest.Rail())))
	out, err := a.Remit("keys create Acme --yes --json")
	var made struct {
		Key      string `json:"api_key"`
		ID       string `json:"id"`
		Merchant string `json:"merchant_id"`
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &made)); err != nil || !strings.HasPrefix(made.Key, "remit_test_") {
		t.Fatal(err, out)
	}
	a.Parameters["AlarmTopicArn"] = "arn:aws:sns:us-east-1:1:alarms"
	a.Play(map[string]string{"merchant": made.Merchant, "key": made.ID})
	raised := "AmountMaximum: \"7\" -> \"8\" (0.000008 USDC)\nby arn:aws:iam::123456789012:user/ada: limits of merchant"
	if len(a.Published) != 3 || !strings.Contains(a.Published[0], raised) {
		t.Errorf("published %q", a.Published)
	}
}

// TestCreate makes wallets beside a command that stops after it has stored the key: no key is lost or read, and no
// wallet is registered without its key. A key that was left may be a merchant's, so its wallet pays nobody.
func TestCreate(t *testing.T) {
	a := operatortest.NewAccount(t)
	must.OK(t, schema.Create(t.Context(), dynamotest.Client(t),
		schema.Tables{APIKeys: "create-keys", Payments: "create-payments", Webhooks: "create-webhooks"}))
	tables := dynamo.NewPayments(dynamotest.Client(t), "create-payments")
	must.OK(t, tables.SetSettings(t.Context(), settings.Default(operatortest.Rail())))
	const create = "wallet create --yes --table payments=create-payments"
	has := func(why string, active, draining int) {
		t.Helper()
		for _, r := range must.Get(tables.Wallets(t.Context(), operatortest.Rail().Coin()))(t) {
			if a.Secrets["remit/wallets/"+r.Address.String()] == "" || r.Key != wallet.InSecret || r.Opened {
				t.Errorf("%s: %+v", why, r)
			}
			active, draining = active-len(wallet.Registry{r}.Paying("")), draining-map[wallet.State]int{wallet.Draining: 1}[r.State]
		}
		if active != 0 || draining != 0 {
			t.Errorf("%s: %d active and %d draining wallets are missing", why, active, draining)
		}
	}
	a.Breaks = "CreateSecret"
	if out, err := a.Remit(create); err == nil || out != "" || !strings.Contains(err.Error(), "run remit wallet create again") {
		t.Errorf("while it is not known whether the key is stored: %q, %v", out, err)
	}
	has("a key alone", 0, 0)
	must.Get(a.Remit(create))(t)
	has("at once after it, when another operator's command may be at work", 1, 0)
	a.Breaks = "CreateSecret"
	_, _ = a.Remit(create)
	a.Made = time.Now().Add(-2 * time.Minute)
	must.Get(a.Remit(create))(t)
	has("two minutes after them", 2, 2)
	must.Get(a.Remit(create))(t)
	has("then", 3, 2)
	if len(a.Secrets) != 5 {
		t.Errorf("%d keys are stored", len(a.Secrets))
	}
}

// TestCreateInKMS stops before a merchant's wallet has a grant, and before its terms are stored.
func TestCreateInKMS(t *testing.T) {
	a, made := operatortest.NewAccount(t), struct {
		Merchant string `json:"merchant_id"`
	}{}
	tables := dynamo.NewPayments(dynamotest.Client(t), "operator-payments")
	must.OK(t, tables.SetSettings(t.Context(), settings.Default(operatortest.Rail())))
	must.OK(t, json.Unmarshal([]byte(must.Get(a.Remit("keys create Acme --yes --json"))(t)), &made))
	roles, key := walletkey.SigningRoles(), must.Get(crypto.GenerateKey())(t)
	for i, role := range roles {
		roles[i] = role + " " + role
	}
	der := must.Get(hex.DecodeString("3056301006072a8648ce3d020106052b8104000a034200"))(t)
	answers := map[string]string{"CreateKey": `{"KeyMetadata":{"Arn":"arn:1"}}`, "CreateGrant": "!AccessDenied",
		"GetPublicKey": `{"KeyId":"arn:1","KeySpec":"ECC_SECG_P256K1","KeyUsage":"SIGN_VERIFY","PublicKey":"` +
			base64.StdEncoding.EncodeToString(append(der, crypto.FromECDSAPub(&key.PublicKey)...)) + `"}`,
		"ListStackResources": operatortest.Resources(roles...)}
	a.Answer = func(_ *http.Request, action, _ string) string { return answers[action] }
	create := "wallet create --kms --yes --merchant " + made.Merchant
	then := " assign " + token.Address(crypto.PubkeyToAddress(key.PublicKey)).String() + " --merchant " + made.Merchant
	a.Steps([][3]string{{"no grant", create, "!import --kms arn:1, then remit wallet drain and assign --merchant"}})
	answers["CreateGrant"] = "{}"
	must.Get(dynamotest.Client(t).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: new("operator-keys"),
		Item: map[string]types.AttributeValue{"key_hash": &types.AttributeValueMemberS{Value: "merchant#" + made.Merchant},
			"terms": &types.AttributeValueMemberS{Value: "damaged"}}}))(t)
	a.Steps([][3]string{{"no terms", create, "!run this again, as remit wallet" + then}})
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
		if len(row.want) > 0 && !strings.Contains(text, `,"'=1+1\u001b[2J",{},`) {
			t.Errorf("remit %s --csv: the reference is a formula, or reaches the terminal raw:\n%s", row.line, text)
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
	registry := &apikey.Registry{Store: keys, Mode: apikey.Test, Now: time.Now, Random: rand.Reader}
	made := must.Get(registry.Create(t.Context(), "Acme", apikey.KeyRequest{}))(t)
	keys.rotate = func() {
		must.Get(registry.Rotate(t.Context(), made.Key, made.Key.ID, time.Hour, func(context.Context, apikey.Key) error { return nil }))(t)
	}
	local := operatortest.Empty(t, stack.Config{})
	local.Keys = keys
	out, err := operatortest.Local(t.Context(), local, "keys", "revoke-all", "--merchant", made.Key.MerchantID, "--yes")
	if err != nil || !strings.HasPrefix(out, "keys that end: 2\n") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestSocketOfAnother: a stack takes no commands, and none is sent, where another user could have put a socket.
func TestSocketOfAnother(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	must.OK(t, os.Mkdir(filepath.Join(run, fmt.Sprint("remit-", os.Getuid())), 0o755))
	if _, err := operator.Serve("127.0.0.1:1", deployed.Local{}); err == nil ||
		!strings.Contains(err.Error(), "no directory of yours alone") {
		t.Errorf("Serve: %v", err)
	}
	if err := operator.Forward(t.Context(), "http://127.0.0.1:1", []string{"deny", "list"}, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "no directory of yours alone") {
		t.Errorf("Forward: %v", err)
	}
}

// TestEveryChangeAsks: each command is a change.Command, which asks and logs, or one of these, which only read.
func TestEveryChangeAsks(t *testing.T) {
	const readers = " audit audit-log deny.list doctor export keys.list merchants.list payment.show preflight " +
		"proposals rails.list settings.history settings.show wallet.list webhooks.failed webhooks.list "
	for _, leaf := range must.Get(kong.New(new(operator.Commands)))(t).Model.Leaves(false) {
		name := strings.ReplaceAll(leaf.Path(), " ", ".")
		changes := strings.HasPrefix(reflect.Indirect(leaf.Target).Type().Name(), "Command[")
		if reads := strings.Contains(readers, " "+name+" "); reads == changes {
			t.Errorf("remit %s: is a change.Command: %t; listed as a reader: %t", name, changes, reads)
		}
	}
}

// twoRails returns a stack with a ledger's rail and one on chain 7, a wallet and a payment each; kill ends its node.
func twoRails(t *testing.T) (local *deployed.Local, words map[string]string, kill func()) {
	l, tables, node := operatortest.NewLedger(t), memory.NewPayments(), httptest.NewServer(operatortest.WellNode(
		operatortest.Node{"eth_chainId": `"result":"0x7"`, "eth_getTransactionReceipt": `"result":null`, "eth_getLogs": `"result":[]`,
			"eth_getBlockByNumber 0x2bc": strings.Replace(operatortest.Block("1"), "0x3de", "0x2bc", 1)}))
	t.Cleanup(node.Close)
	config := stack.Config{ChainID: l.Chain.ID(), Token: l.Chain.Token(), Network: "local", ConfirmationRule: chain.ConfirmationRule{Depth: 1},
		BlockTime: time.Second, Own: stack.Own{Window: 16, FeeLimit: operatortest.Fees.Cap}}
	usd := token.Token{Contract: token.Address{7}, Symbol: config.Token.Symbol, Decimals: 6}
	other := settings.Rail{ChainID: 7, Token: usd, Network: "seven", Confirmation: "finalized"}
	l.Fill(tables, l.Payments)
	for a, next := range l.Nonces {
		must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: wallet.ID{ChainID: config.ChainID, Address: a}, NextNonce: next, Ceiling: next + 64,
			Balance: token.Units(1e6), Gas: token.Units(1e18)}, config.Token.Contract))
	}
	for _, r := range []settings.Rail{{ChainID: config.ChainID, Token: config.Token, Network: "local"}, other} {
		must.OK(t, tables.SetSettings(t.Context(), settings.Default(r)))
	}
	second := wallet.ID{ChainID: 7, Address: token.Address{0x99}}
	must.OK(t, tables.Register(t.Context(), wallet.Registration{ID: second, Token: other.Token.Contract, State: wallet.Active}))
	must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: second}, other.Token.Contract))
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "seven", Asset: other.Coin(),
		To: operatortest.Payee, Amount: token.Units(8)}
	p := payment.New(payment.KeyID("mer_1", "test", "seven"), r, other.Token, "seven", operatortest.Nine).
		AssignedTo(second.Address, chain.Tx{ChainID: 7, To: other.Token.Contract, Data: chain.TransferData(r.To, r.Amount)})
	_, _, err := tables.Create(t.Context(), p)
	must.OK(t, err)
	must.OK(t, tables.Commit(t.Context(), must.Get(p.Commit(chain.Signed{Hash: chain.Hash{7}, Raw: []byte{1}}, operatortest.Nine))(t)))
	return &deployed.Local{Tables: deployed.Tables{Payments: tables, AuditLog: tables, Webhooks: memory.NewWebhooks(),
			Keys: new(memory.APIKeys)},
			Config: config, Nodes: map[uint64][]string{config.ChainID: l.URLs, 7: {node.URL}},
			Hint:  func(context.Context) error { return errors.New("no run") },
			Keyed: func() map[token.Address]token.Coin { return nil }},
		map[string]string{"one": l.Keys[0].Address().String(), "two": second.Address.String(), "payee": operatortest.Payee.String(),
			"asset": config.Coin().String(), "other": other.Coin().String(), "payment": string(p.ID)}, func() {
			node.Close()
			_ = tables.SetState(t.Context(), second, wallet.Draining, wallet.Retired, operatortest.Nine) // if it is drained
		}
}

// TestRails runs commands for a stack with two rails one after another. Then the second one's nodes are gone.
func TestRails(t *testing.T) {
	local, words, kill := twoRails(t)
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		line, dead := strings.CutPrefix(c.In[0], "dead: ")
		if dead {
			kill()
		}
		out, err := operatortest.Local(t.Context(), local, strings.Split(line, " ")...)
		for want := range strings.SplitSeq(c.Want, " & ") {
			got := out
			if text, refused := strings.CutPrefix(want, "!"); refused {
				got, want = fmt.Sprint(err), text
			} else if !strings.Contains(c.Want, "!") && err != nil {
				t.Error(err)
			}
			if text, absent := strings.CutPrefix(want, "not "); strings.Contains(got, text) == absent {
				t.Errorf("remit %s: %q, %v; want %q", line, out, err, want)
			}
		}
	})
}
