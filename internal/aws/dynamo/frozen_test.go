package dynamo_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// gone are the fields of a values.txt that this version has no more, each with the reason
// why nobody misses them. One that was renamed is no such field: described may rename it.
var gone = map[string]string{
	"Taken":    "a round counts what is in flight from the transactions, and removes these counts",
	"Recounts": "guarded Taken",
	"Depth":    "no key descends from another",
}

// TestFrozen reads every item that earlier versions have stored, and compares what it
// reads with what they read. testdata/frozen/README.md says how to freeze a version.
func TestFrozen(t *testing.T) {
	sums, err := os.ReadFile("testdata/frozen/SHA256SUMS")
	files, globErr := filepath.Glob("testdata/frozen/*/*")
	if err != nil || globErr != nil || len(files) == 0 || len(files) != bytes.Count(sums, []byte("\n")) {
		t.Fatalf("%d files, and the sums %s: %v, %v", len(files), sums, err, globErr)
	}
	for _, file := range files {
		dir, last := filepath.Split(file)
		if last != "values.txt" {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			dynamotest.Clear(t)
			f := thaw(t, dir, string(sums))
			for line := range strings.Lines(string(f.read("values.txt"))) {
				name, was, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
				name = strings.Replace(name, ".Grant.Limits[0].", ".Grant.Daily.", 1)
				key, field, _ := strings.Cut(name, ".")
				if f.narrowed[key] && strings.HasPrefix(field, "Grant.") {
					continue // see TestGrantText of package apikey
				}
				field, _, _ = strings.Cut(name[strings.LastIndex(name, ".")+1:], "[")
				if f.values[name] != was && gone[field] == "" {
					t.Errorf("%s\n\tis  %s\n\twas %s", name, f.values[name], was)
				}
			}
		})
	}
}

// A thawed is three tables with the items of a frozen version.
type thawed struct {
	*testing.T
	dir      string
	sums     string // of all frozen files, as sha256sum prints them
	keys     *dynamo.APIKeys
	payments *dynamo.Payments
	webhooks *dynamo.Webhooks
	values   map[string]string // of the fields of what was read, by item
	narrowed map[string]bool   // keys that may do less than when they were stored
}

// thaw stores the items of a frozen version, and reads each through the store that keeps
// it, and the jobs that its queue had. An item that nothing reads fails t.
func thaw(t *testing.T, dir, sums string) *thawed {
	db := dynamotest.Client(t)
	// An item names its own table, see comparedKey.
	names := dynamo.Tables{APIKeys: "frozen-keys", Payments: "frozen-payments", Webhooks: "frozen-webhooks"}
	f := &thawed{t, dir, sums, dynamo.NewAPIKeys(db, names.APIKeys), dynamo.NewPayments(db, names.Payments),
		dynamo.NewWebhooks(db, names.Webhooks), map[string]string{}, map[string]bool{}}
	must.OK(f, dynamo.CreateTables(t.Context(), db, names))
	for table, read := range map[string]func(frozen){names.APIKeys: f.readKey, names.Payments: f.readPayments, names.Webhooks: f.readWebhook} {
		text := f.read(strings.TrimPrefix(table, "frozen-") + ".json")
		for line := range bytes.Lines(text) {
			f.put(table, line)
		}
		for line := range bytes.Lines(text) {
			var item frozen
			must.OK(f, json.Unmarshal(line, &item))
			read(item)
		}
	}
	for _, err := range f.payments.Entries(t.Context()) {
		must.OK(f, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "jobs.txt")); err == nil {
		for job := range strings.Lines(string(f.read("jobs.txt"))) {
			d, whole, err := webhook.ParseJob(strings.TrimSpace(job))
			f.add(fmt.Sprint("job ", d.Delivery, " ", whole), d, err)
		}
	}
	return f
}

// read returns a frozen file, which has never changed: deployed tables have such items.
func (f *thawed) read(name string) []byte {
	text := must.Get(os.ReadFile(filepath.Join(f.dir, name)))(f)
	sum := fmt.Sprintf("%x  %s/%s\n", sha256.Sum256(text), filepath.Base(f.dir), name)
	if !strings.Contains(f.sums, sum) {
		f.Errorf("%s has changed, and no frozen file does: restore it", name)
	}
	return text
}

// A frozen is an item in the JSON of DynamoDB: each attribute by its type.
type frozen map[string]map[string]any

// text returns the text or number of an attribute, "" if there is none.
func (item frozen) text(name string) string {
	text, _ := item[name]["S"].(string)
	number, _ := item[name]["N"].(string)
	return text + number
}

// put stores an item as it is.
func (f *thawed) put(table string, item []byte) {
	body := fmt.Appendf(nil, `{"TableName":%q,"Item":%s}`, table, item)
	req, err := http.NewRequestWithContext(f.Context(), http.MethodPost, dynamotest.Start(f.T), bytes.NewReader(body))
	must.OK(f, err)
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=remit/20260101/us-east-1/dynamodb/aws4_request, "+
		"SignedHeaders=host, Signature=0")
	resp := must.Get(http.DefaultClient.Do(req))(f)
	must.OK(f, resp.Body.Close())
	if resp.StatusCode != http.StatusOK {
		f.Fatalf("putting %s: %s", item, resp.Status)
	}
}

func (f *thawed) readKey(item frozen) {
	ctx, key := f.Context(), item.text("key_hash")
	parts := strings.Split(key, "#")
	switch parts[0] {
	case "recipient":
		entry, err := f.keys.Entry(ctx, parts[2], parts[1], f.address(parts[3]))
		page, _, listErr := f.keys.Entries(ctx, parts[2], parts[1], recipient.Position{}, 1000)
		f.add(key, entry, errors.Join(err, listErr))
		f.found(key, slices.Contains(page, entry))
	case "merchant":
		terms, err := f.keys.Terms(ctx, parts[1])
		f.add(key, terms, err)
	case "issued": // its revision is a condition of the next key
		next := apikey.Key{Hash: apikey.Hash{1}, ID: "key_next", MerchantID: parts[1], Mode: apikey.Test, CreatedAt: noon, Grant: apikey.Full()}
		must.OK(f, f.keys.Issue(ctx, next, 100))
	case "settings":
		now, err := f.keys.KeySettings(ctx)
		all, historyErr := f.keys.KeySettingsHistory(ctx)
		f.add(key, version(item, append(all, now), func(v settings.Keys) uint64 { return v.Version }), errors.Join(err, historyErr))
	default:
		var hash apikey.Hash
		must.Get(hex.Decode(hash[:], []byte(key)))(f)
		found, err := f.keys.Find(ctx, hash)
		list, listErr := f.keys.List(ctx, found.MerchantID)
		f.narrowed[key] = found.Former != 0
		f.add(key, found, errors.Join(err, listErr))
		f.found(key, slices.Contains(list, found))
	}
}

func (f *thawed) readPayments(item frozen) {
	ctx, sk, key := f.Context(), item.text("sk"), item.text("pk")+" "+item.text("sk")
	parts := strings.Split(item.text("pk"), "#")
	switch parts[0] {
	case "payment":
		p, err := f.payments.Payment(ctx, payment.ID(parts[1]))
		f.add(key, p, err)
		if item["list_pk"] != nil {
			page, _, err := f.payments.List(ctx, store.Filter{Merchant: p.Merchant, Mode: p.Mode, After: p.CreatedAt.Add(-1),
				Before: p.CreatedAt.Add(1)})
			must.OK(f, err)
			f.found(key, slices.ContainsFunc(page, func(q payment.Payment) bool { return q.ID == p.ID }))
		}
	case "tx":
		hash := must.Get(chain.ParseHash(parts[1]))(f)
		p, err := f.payments.PaymentByHash(ctx, hash)
		if errors.Is(err, store.ErrNotFound) { // a no-op's
			p, err = payment.Payment{ID: "none"}, nil
		}
		f.add(key, p.ID, err)
	case "wallet":
		id := f.wallet(parts[1], parts[2])
		if sk == "wallet" {
			w, err := f.payments.Wallet(ctx, id)
			f.add(key, w, err)
			_, unreadable, err := f.payments.PendingTxs(ctx, id, 0)
			must.OK(f, err)
			f.found(key, unreadable == 0)
			return
		}
		nonce := must.Get(strconv.ParseUint(strings.TrimPrefix(sk, "pendingtx#"), 10, 64))(f)
		tx, err := f.payments.PendingTx(ctx, id, nonce)
		f.add(key, tx, err)
	case "wallets":
		id := f.wallet(parts[1], strings.TrimPrefix(sk, "wallet#"))
		registry := must.Get(f.payments.Wallets(ctx, id.ChainID))(f)
		registered, found := registry.Find(id.Address)
		f.add(key, registered, nil)
		f.found(key, found)
	case "compared":
		compared, err := f.payments.Compared(ctx, f.wallet(parts[1], token.Address{}.String()).ChainID)
		f.add(key, compared.At, err)
		f.add(key+" comparison", compared, nil)
	case "merchant":
		f.readDay(parts[1], item)
	case "settings", "denied":
		if item["version"] != nil {
			rules, err := f.payments.Rules(ctx)
			all, historyErr := f.payments.SettingsHistory(ctx)
			f.add(key, version(item, append(all, rules.Settings), func(v settings.Settings) uint64 { return v.Version }),
				errors.Join(err, rules.Unusable, historyErr))
			return
		}
		rules := must.Get(f.payments.Rules(ctx))(f)
		i := slices.IndexFunc(rules.Denied, func(d store.Denial) bool { return d.To.String() == sk })
		f.add(key, rules.Denied[max(i, 0)], nil)
	case "audit":
		acts := must.Get(f.payments.Acts(ctx, time.Unix(0, 0)))(f)
		i := slices.IndexFunc(acts, func(a store.Act) bool { return strings.HasSuffix(sk, a.ID+"#"+string(a.Outcome)) })
		f.add(key, acts[max(i, 0)], nil)
	default:
		f.Errorf("nothing reads %s", key)
	}
}

// version returns the settings of a version.
func version[T any](item frozen, all []T, of func(T) uint64) (none T) {
	for _, v := range all {
		if fmt.Sprint(of(v)) == item.text("version") {
			return v
		}
	}
	return none
}

// readDay holds that the tallies of a day count: a limit of as much leaves no room.
func (f *thawed) readDay(merchant string, item frozen) {
	parts := strings.Split(item.text("sk"), "#") // spend#<day>#<mode>
	day := must.Get(time.Parse(time.DateOnly, parts[1]))(f)
	for name := range item {
		kind, key, _ := strings.Cut(name, "#")
		limit := payment.DailyLimit{Key: key}
		switch kind {
		case "spent":
			limit.Amount = must.Get(token.ParseAmount(item.text(name)))(f)
		case "count":
			limit.Count = must.Get(strconv.ParseUint(item.text(name), 10, 64))(f)
		default:
			continue
		}
		err := f.payments.Charge(f.Context(), store.Charge{Merchant: merchant, Mode: parts[2], At: day, Amount: token.Units(1), Count: 1,
			Limits: []payment.DailyLimit{limit}})
		f.found(name, errors.Is(err, store.ErrDailyLimit))
	}
}

func (f *thawed) readWebhook(item frozen) {
	ctx, pk, sk := f.Context(), item.text("pk"), item.text("sk")
	key := pk + " " + sk
	parts := strings.Split(pk+"#"+sk, "#")
	switch {
	case parts[0] == "log":
		ref := webhook.Ref{Owner: webhook.Owner{Mode: parts[1], Merchant: parts[2]}, Endpoint: parts[3], Delivery: sk}
		_, d, err := f.webhooks.Load(ctx, ref)
		list, listErr := f.webhooks.Deliveries(ctx, ref.Owner, ref.Endpoint, time.Time{}, time.Time{}, 1000)
		due, dueErr := f.webhooks.Due(ctx, noon.AddDate(1000, 0, 0), 1000)
		f.add(key, d, errors.Join(err, listErr, dueErr))
		f.found(key, slices.ContainsFunc(list, func(d webhook.Delivery) bool { return d.Ref == ref }))
		f.found(key, d.Parked == slices.ContainsFunc(due, func(d webhook.Due) bool { return d.Ref == ref }))
	case parts[1] == "count":
		count := must.Get(strconv.Atoi(item.text("endpoints")))(f)
		next := webhook.Endpoint{Owner: webhook.Owner{Merchant: pk, Mode: parts[2]}, ID: "we_next"}
		f.found(key, errors.Is(f.webhooks.AddEndpoint(ctx, next, count), webhook.ErrLimit))
	case parts[1] == "endpoint" || parts[1] == "gone":
		e, err := f.webhooks.Endpoint(ctx, webhook.Owner{Merchant: pk, Mode: parts[2]}, parts[3])
		f.add(key, e, err)
	default:
		f.Errorf("nothing reads %s", key)
	}
}

func (f *thawed) address(text string) token.Address {
	f.Helper()
	a := must.Get(token.ParseAddress(text))(f)
	return a
}

func (f *thawed) wallet(chainID, address string) wallet.ID {
	id := must.Get(strconv.ParseUint(chainID, 10, 64))(f)
	return wallet.ID{ChainID: id, Address: f.address(address)}
}

func (f *thawed) found(key string, ok bool) {
	f.Helper()
	if !ok {
		f.Errorf("%s is not where a list or a limit looks for it", key)
	}
}

func (f *thawed) add(key string, v any, err error) {
	f.Helper()
	if err != nil {
		f.Errorf("%s: %v", key, err)
	}
	described(f.values, key, reflect.ValueOf(v))
}

// described adds the fields of v that are not zero, each by its path from name.
func described(all map[string]string, name string, v reflect.Value) {
	if v.IsZero() {
		return
	}
	switch is := v.Interface().(type) {
	case time.Time:
		all[name] = is.UTC().Format(time.RFC3339Nano)
		return
	case webhook.Secret:
		all[name] = is.Stored()
		return
	case []byte:
		all[name] = fmt.Sprintf("%q", is)
		return
	case fmt.Stringer:
		all[name] = is.String()
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		described(all, name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			described(all, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			described(all, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			described(all, fmt.Sprintf("%s[%q]", name, k.String()), v.MapIndex(k))
		}
	default:
		all[name] = fmt.Sprintf("%q", fmt.Sprint(v))
	}
}
