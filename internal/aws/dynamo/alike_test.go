package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestAlike runs the same random operations here and on the store in memory: without flags, the same few each time.
func TestAlike(t *testing.T) {
	if checks := flag.Lookup("rapid.checks").Value; checks.String() == "100" {
		must.OK(t, errors.Join(checks.Set("10"), flag.Set("rapid.seed", "1")))
	}
	storetest.Alike(t, pairs(t))
}

func TestFull(t *testing.T) {
	p := pairs(t)(t.Context())
	defer p.Close()
	storetest.Full(t, p)
}

func TestRaces(t *testing.T) {
	p := pairs(t)(t.Context())
	defer p.Close()
	storetest.Races(t, p.Database)
}

// pairs returns a source of pairs of stores. At its end, a pair compares attributes and their types with TestFrozen's.
func pairs(t *testing.T) func(context.Context) storetest.Pair {
	w, frozen := new(wire), map[string]bool{}
	for _, file := range must.Get(filepath.Glob("testdata/frozen/*.items"))(t) {
		for line := range strings.Lines(string(must.Get(os.ReadFile(file))(t))) {
			for _, name := range attributesOf(line) {
				frozen[name] = true
			}
		}
	}
	db := w.client(t)
	return func(ctx context.Context) storetest.Pair {
		id := rand.Text()
		tables := schema.Tables{APIKeys: "keys-" + id, Payments: "payments-" + id, Webhooks: "webhooks-" + id}
		must.OK(t, schema.Create(ctx, db, tables))
		here, there := memory.NewPayments(), dynamo.NewPayments(db, tables.Payments)
		return storetest.Pair{
			Memory: storetest.Stores{Payments: here, Webhooks: memory.NewWebhooks(), Keys: new(memory.APIKeys), Damage: here},
			Database: storetest.Stores{Payments: there, Webhooks: dynamo.NewWebhooks(db, tables.Webhooks),
				Keys: dynamo.NewAPIKeys(db, tables.APIKeys), Damage: damager{t, db, tables.Payments}},
			Lose: w.lose,
			Copy: func(of string, others []string) { copies(t, db, tables.Payments, of, others) },
			Close: func() {
				w.meddle = nil
				names := []string{tables.APIKeys, tables.Payments, tables.Webhooks}
				for _, item := range items(t, db, names...) {
					text := string(must.Get(attributevalue.MarshalMapJSON(item))(t))
					for _, name := range attributesOf(strings.ReplaceAll(text, `{"S":"none"}`, "")) { // a damager's
						if !frozen[name] {
							frozen[name] = true // reported once
							t.Errorf("no frozen item has %s: add two files to testdata/frozen (see TestFrozen)", name)
						}
					}
				}
				for _, name := range names {
					must.Get(db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}))(t)
				}
			},
		}
	}
}

// copies stores a denial for other recipients too, or the sums of a key in a day for other keys.
func copies(t *testing.T, db *dynamodb.Client, table, of string, others []string) {
	put := func(item map[string]types.AttributeValue) {
		must.Get(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}))(t)
	}
	for _, item := range items(t, db, table) {
		if sk, _ := item["sk"].(*types.AttributeValueMemberS); sk.Value == of {
			for _, other := range others {
				item["sk"] = text(other)
				put(item)
			}
		}
		if keys, is := item["keys"].(*types.AttributeValueMemberSS); is && slices.Contains(keys.Value, of) {
			for _, other := range others {
				item["spent#"+other], item["count#"+other] = item["spent#"+of], item["count#"+of]
			}
			keys.Value = append(keys.Value, others...)
			put(item)
		}
	}
}

// A damager damages items of a table Payments.
type damager struct {
	*testing.T
	db    *dynamodb.Client
	table string
}

func (d damager) Spoil(id payment.ID) {
	damage(d.T, d.db, d.table, "payment#"+string(id), "payment", "amount", "1e6")
}

func (d damager) SpoilPendingTx(id wallet.ID, nonce uint64) {
	damage(d.T, d.db, d.table, fmt.Sprintf("wallet#%d#%s", id.ChainID, id.Address), fmt.Sprintf("pendingtx#%020d", nonce), "gas_held", "1e6")
}

func (d damager) SpoilWallet(id wallet.ID) {
	damage(d.T, d.db, d.table, fmt.Sprintf("wallet#%d#%s", id.ChainID, id.Address), "wallet", "gas_available", "none")
}

func (d damager) SpoilRegistration(id wallet.ID) {
	damage(d.T, d.db, d.table, fmt.Sprintf("wallets#%d", id.ChainID), "wallet#"+id.Address.String(), "since", "lately")
}

func (d damager) SpoilSettings(c token.Coin, _ error) {
	rules := must.Get(dynamo.NewPayments(d.db, d.table).Rules(d.Context()))(d)
	i := slices.IndexFunc(rules.Rails, func(r store.Rail) bool { return r.Coin == c })
	damage(d.T, d.db, d.table, "rails", fmt.Sprintf("%02d", i+1), "values", "none")
}
