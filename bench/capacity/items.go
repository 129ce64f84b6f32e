package capacity

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// An item is a kind of item and how large its kind is.
type item struct {
	when, kind string
	count      int
	mean, most int // bytes
}

// weigh reads every item of the tables and adds their sizes by kind.
func (b *bed) weigh(ctx context.Context, l *life, when string) error {
	kinds := map[string]*item{}
	for _, table := range []string{b.tables.Payments, b.tables.Webhooks} {
		pages := dynamodb.NewScanPaginator(b.db, &dynamodb.ScanInput{TableName: &table})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, attributes := range page.Items {
				kind := kindOf(table, attributes)
				k := kinds[kind]
				if k == nil {
					k = &item{when: when, kind: kind}
					kinds[kind] = k
				}
				size := sizeOf(attributes)
				k.count++
				k.mean += size
				k.most = max(k.most, size)
			}
		}
	}
	b.meter.take()
	var found []item
	for _, k := range kinds {
		k.mean /= k.count
		found = append(found, *k)
	}
	slices.SortFunc(found, func(x, y item) int { return cmp.Compare(x.kind, y.kind) })
	l.items = append(l.items, found...)
	return nil
}

// kindOf tells an item by its keys.
func kindOf(table string, attributes map[string]types.AttributeValue) string {
	text := func(name string) string {
		s, _ := attributes[name].(*types.AttributeValueMemberS)
		if s == nil {
			return ""
		}
		return s.Value
	}
	before := func(s string) string {
		head, _, _ := strings.Cut(s, "#")
		for prefix, name := range map[string]string{"dlv_": "delivery", "mer_": "merchant"} {
			if strings.HasPrefix(head, prefix) {
				return name
			}
		}
		return head
	}
	pk, sk := before(text("pk")), before(text("sk"))
	switch {
	case pk == sk || sk == "":
		return table + ": " + pk
	default:
		return table + ": " + pk + " / " + sk
	}
}

// transacted returns the write units of a transaction on items of these sizes:
// two for each kilobyte begun, of each (DynamoDB developer guide, "Capacity
// management for transactions"). DynamoDB Local tells up to twice that, and not
// in step with the sizes, so its word is not taken here.
func transacted(bytes ...int) float64 {
	units := 0
	for _, b := range bytes {
		units += 2 * ((b + 1023) / 1024)
	}
	return float64(units)
}

// largest returns the size of the largest item of a kind at a time.
func (l *life) largest(when, kind string) int {
	for _, i := range l.items {
		if i.when == when && i.kind == kind {
			return i.most
		}
	}
	return 0
}

// indexed is the write unit for a new entry in the index that lists payments.
// The index is written after the transaction, so it does not count double.
const indexed = 1

// committed puts right what DynamoDB Local told of the transaction that commits.
func (l *life) committed() {
	u := l.used[Post]["TransactWriteItems"]
	u.Writes = u.Calls * (indexed + transacted(l.largest(sent, "payments: payment"),
		l.largest(sent, "payments: wallet / pending transaction"), l.largest(sent, "payments: tx")))
	l.used[Post]["TransactWriteItems"] = u
}

// When items are weighed.
const (
	sent = "after send-payment"
	kept = "for good"
)
