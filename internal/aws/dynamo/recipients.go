package dynamo

import (
	"context"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

// Address books are kept in the table ApiKeys: like a key's grant an entry says what a key may do, and send-payment
// needs no right to a table of secrets to read it. The merchant index has a list for each address book, newest first.

// An entryItem is a recipient.Entry. Its address, key_hash and merchant_id, its list in the merchant index, are texts.
type entryItem struct {
	Merchant  string        `dynamodbav:"-"`
	Mode      string        `dynamodbav:"-"`
	Address   token.Address `dynamodbav:"-"`
	Label     string        `dynamodbav:"label,omitempty"`
	CreatedAt time.Time     `dynamodbav:"created_at"`
	ActiveAt  time.Time     `dynamodbav:"active_at"`
}

func entryKey(merchant, mode string, a token.Address) primaryKey {
	return hashKey("recipient#" + mode + "#" + merchant + "#" + a.String())
}

func bookList(merchant, mode string) string { return "recipients#" + mode + "#" + merchant }

func decodeEntry(merchant, mode string) func(attributes) (recipient.Entry, error) {
	return func(item attributes) (recipient.Entry, error) {
		var it entryItem
		r := read(item, &it)
		it.Merchant, it.Mode, it.Address = merchant, mode, r.address("address", textOf(item, "address"))
		r.require("active_at", !it.ActiveAt.IsZero())
		return decoded(r, recipient.Entry(it), "recipient "+it.Address.String())
	}
}

// AddEntry implements recipient.Store. When the SDK repeats the put after a lost answer it meets its own entry.
func (s *APIKeys) AddEntry(ctx context.Context, e recipient.Entry) (recipient.Entry, bool, error) {
	item := encode(entryItem(e))
	maps.Copy(item, entryKey(e.Merchant, e.Mode, e.Address))
	item[attrMerchantID], item["address"] = text(bookList(e.Merchant, e.Mode)), text(e.Address.String())
	_, err := s.apply(ctx, create(item, nil))
	if there, ok := refused(err); ok {
		stored, err := decodeEntry(e.Merchant, e.Mode)(there)
		return stored, err == nil && stored == e, err
	}
	return e, err == nil, outcome(err, nil, "putting an entry")
}

func (s *APIKeys) Entry(ctx context.Context, merchant, mode string, a token.Address) (recipient.Entry, error) {
	return get(ctx, s.table, entryKey(merchant, mode, a), "an entry", recipient.ErrNotFound, decodeEntry(merchant, mode))
}

func (s *APIKeys) Entries(ctx context.Context, merchant, mode string, from recipient.Position, limit int) (page []recipient.Entry,
	more bool, err error) {
	in := &dynamodb.QueryInput{
		IndexName:                 aws.String(indexMerchant),
		KeyConditionExpression:    aws.String("merchant_id = :m"),
		ExpressionAttributeValues: attributes{":m": text(bookList(merchant, mode))},
		ScanIndexForward:          aws.Bool(false),
		Limit:                     aws.Int32(int32(min(limit+1, 1000))),
	}
	if !from.CreatedAt.IsZero() {
		in.ExclusiveStartKey = entryKey(merchant, mode, from.Address)
		in.ExclusiveStartKey[attrMerchantID], in.ExclusiveStartKey[attrCreatedAt] = text(bookList(merchant, mode)), text(instant(from.CreatedAt))
	}
	page = []recipient.Entry{}
	for item, err := range s.query(ctx, "querying an address book", in) {
		if err != nil {
			return nil, false, err
		}
		if len(page) == limit {
			return page, true, nil
		}
		e, err := decodeEntry(merchant, mode)(item)
		if err != nil {
			return nil, false, err
		}
		page = append(page, e)
	}
	return page, false, nil
}

// DeleteEntry implements recipient.Store. When the SDK repeats it after a lost answer, the caller gets ErrNotFound.
func (s *APIKeys) DeleteEntry(ctx context.Context, merchant, mode string, a token.Address) error {
	c := change{key: entryKey(merchant, mode, a), gone: true, when: "attribute_exists(key_hash)"}
	return s.make(ctx, c, is(recipient.ErrNotFound), "deleting an entry")
}
