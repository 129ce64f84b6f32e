package dynamo

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// APIKeys keeps API keys and address books in the table ApiKeys.
type APIKeys struct{ table }

// NewAPIKeys returns the keys kept in the table of that name.
func NewAPIKeys(db *dynamodb.Client, name string) *APIKeys { return &APIKeys{table{db, name}} }

// Create implements apikey.Store. When a call repeats it after a lost answer, ownOrTaken recognizes its own item.
func (s *APIKeys) Create(ctx context.Context, k apikey.Key) error {
	return s.transact(ctx, "putting "+k.ID, putNew(k)...)
}

// issueTries bounds how often others may issue keys meanwhile: each time one more is stored, up to apikey.MaxLive.
const issueTries = 2 * apikey.MaxLive

// indexLag is the time after which the merchant index surely has a key.
const indexLag = 10 * time.Minute

// Issue implements apikey.Store. The index may lag, so an item of the merchant names the valid keys that were issued
// lately, at most as many as are valid, and its revision lets one of several callers store its key. Rotated keys are
// not named: no limit refuses them. The transaction's token gives a repetition after a lost answer the first answer.
func (s *APIKeys) Issue(ctx context.Context, k apikey.Key, most int) error {
	for range issueTries {
		it, err := get(ctx, s.table, hashKey(issuedPrefix+k.MerchantID), "the issued keys of "+k.MerchantID, nil, decodeIssued)
		if err != nil {
			return err
		}
		keys, err := s.List(ctx, k.MerchantID)
		if err != nil {
			return err
		}
		valid, listed := 0, map[string]apikey.Key{}
		for _, there := range keys {
			listed[there.ID] = there
			if there.Hash != k.Hash && there.Valid(k.CreatedAt) {
				valid++
			}
		}
		next := issuedItem{issuedPrefix + k.MerchantID, []string{k.ID}, it.Revision + 1}
		for _, id := range it.Issued {
			if id == k.ID {
				continue
			}
			there, ok := listed[id]
			if !ok {
				valid++
			}
			if !ok || there.Valid(k.CreatedAt) && k.CreatedAt.Before(there.CreatedAt.Add(indexLag)) {
				next.Issued = append(next.Issued, id)
			}
		}
		if valid >= most {
			return apikey.ErrLimit
		}
		issued := change{item: encode(next), when: "attribute_not_exists(key_hash) OR revision = :seen",
			values: args{":seen": it.Revision}}
		err = s.transact(ctx, "issuing "+k.ID, append(putNew(k), write{issued, is(errOvertaken)})...)
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return errOvertaken
}

var errOvertaken = errors.New("others issue keys of the merchant")

type issuedItem struct {
	KeyHash  string   `dynamodbav:"key_hash"` // issued#mer_…
	Issued   []string `dynamodbav:"issued"`   // key ids
	Revision uint64   `dynamodbav:"revision"` // of the item
}

func decodeIssued(item attributes) (it issuedItem, err error) {
	r := read(item, &it)
	return decoded(r, it, "the issued keys of a merchant")
}

// putNew stores a key, and its hash under its id: that finds the key without the merchant index, which lags.
func putNew(k apikey.Key) []write {
	return []write{
		{create(encodeAPIKey(k), nil), func(there attributes) error { return ownOrTaken(there, k) }},
		{change{item: attributes{attrKeyHash: text(idPrefix + k.ID), "names": text(hex.EncodeToString(k.Hash[:]))}}, nil},
	}
}

// ownOrTaken judges the item that was found under k's hash. It returns nil for k
// itself, stored by a call whose answer was lost, and ErrExists for another key.
func ownOrTaken(item attributes, k apikey.Key) error {
	there, err := decodeAPIKey(item)
	if err != nil {
		return err
	}
	if there.Hash == k.Hash && there.MerchantID == k.MerchantID && there.CreatedAt.Equal(k.CreatedAt) {
		return nil
	}
	return apikey.ErrExists
}

// Find implements apikey.Finder, strongly consistent: an authorizer's refusal is cached, so no new key may be missed.
func (s *APIKeys) Find(ctx context.Context, hash apikey.Hash) (apikey.Key, error) {
	return get(ctx, s.table, apiKeyKey(hash), "an API key", apikey.ErrNotFound, decodeAPIKey)
}

type termsItem struct {
	KeyHash string `dynamodbav:"key_hash"` // merchant#mer_…
	Terms   string `dynamodbav:"terms"`    // apikey.Terms' text
}

func (s *APIKeys) Terms(ctx context.Context, merchantID string) (apikey.Terms, error) {
	name := "the terms of " + merchantID
	return get(ctx, s.table, hashKey(termsPrefix+merchantID), name, nil, func(item attributes) (apikey.Terms, error) {
		var it termsItem
		r := read(item, &it)
		return decoded(r, parsed(r, "terms", it.Terms, apikey.ParseTerms), name)
	})
}

func (s *APIKeys) SetTerms(ctx context.Context, merchantID string, from, to apikey.Terms) error {
	if len(to.Assets) > apikey.MaxAssetTerms {
		return apikey.ErrAssetTerms
	}
	condition := "terms IN (:from, :to)"
	if from.Text() == "" || to.Text() == "" {
		condition = "attribute_not_exists(terms) OR " + condition
	}
	return s.make(ctx, change{item: encode(termsItem{termsPrefix + merchantID, to.Text()}), when: condition,
		values: args{":from": from.Text(), ":to": to.Text()}}, is(apikey.ErrTerms), "storing the terms of "+merchantID)
}

func (s *APIKeys) Touch(ctx context.Context, hash apikey.Hash, at, since time.Time) error {
	return s.make(ctx, change{key: apiKeyKey(hash), set: args{"last_used_at": at}, values: args{":since": since},
		when: "attribute_exists(key_hash) AND (attribute_not_exists(last_used_at) OR last_used_at <= :since)",
	}, unless(apikey.ErrNotFound, nil), "touching an API key") // another request may just have recorded its use
}

func (s *APIKeys) Named(ctx context.Context, merchantID, id string) (apikey.Key, error) {
	hash, err := get(ctx, s.table, hashKey(idPrefix+id), "the id "+id, apikey.ErrNotFound, func(item attributes) (string, error) {
		return textOf(item, "names"), nil
	})
	if err != nil {
		return apikey.Key{}, err
	}
	k, err := get(ctx, s.table, hashKey(hash), "an API key", apikey.ErrNotFound, decodeAPIKey)
	if err == nil && k.MerchantID != merchantID {
		return apikey.Key{}, apikey.ErrNotFound
	}
	return k, err
}

func (s *APIKeys) List(ctx context.Context, merchantID string) ([]apikey.Key, error) {
	keys, err := all(s.query(ctx, "querying the API keys of "+merchantID, &dynamodb.QueryInput{
		IndexName: aws.String(indexMerchant), KeyConditionExpression: aws.String("merchant_id = :m"),
		ExpressionAttributeValues: attributes{":m": text(merchantID)},
	}), decodeAPIKey)
	slices.SortFunc(keys, apikey.NewestFirst)
	return keys, err
}

// Replace implements apikey.Store with one transaction: the successor, and the old key with its expiry shortened. If
// the old key expires earlier anyway, a second transaction only checks its merchant. An expiry never moves to a later
// time, so the second transaction need not check it again.
func (s *APIKeys) Replace(ctx context.Context, merchantID string, hash apikey.Hash, at time.Time, successor apikey.Key) error {
	doing := "putting " + successor.ID
	puts := putNew(successor)
	own := change{key: apiKeyKey(hash), still: args{attrMerchantID: merchantID}}
	ended, earlier := own, false
	ended.set, ended.values = args{"expires_at": at}, args{":at": at}
	ended.when = "attribute_not_exists(expires_at) OR expires_at > :at"
	err := s.transact(ctx, doing, append([]write{{ended, func(old attributes) error {
		earlier = textOf(old, attrMerchantID) == merchantID
		return apikey.ErrNotFound
	}}}, puts...)...)
	if !earlier {
		return err
	}
	return s.transact(ctx, doing, append([]write{{own, is(apikey.ErrNotFound)}}, puts...)...)
}

func (s *APIKeys) Revoke(ctx context.Context, merchantID string, hash apikey.Hash, at time.Time) (apikey.Key, error) {
	item, err := s.apply(ctx, change{key: apiKeyKey(hash), still: args{attrMerchantID: merchantID},
		do: "SET revoked_at = if_not_exists(revoked_at, :at)", values: args{":at": at},
		returns: types.ReturnValueAllNew})
	if err != nil {
		return apikey.Key{}, outcome(err, is(apikey.ErrNotFound), "revoking an API key")
	}
	return decodeAPIKey(item)
}

func (s *APIKeys) All(ctx context.Context) ([]apikey.Key, error) {
	return all(s.scan(ctx, "attribute_exists(key_id)", nil), decodeAPIKey) // no entry of an address book
}

// End gives the stored key of k.Hash the revocation and the expiry of k, each where k has one and the stored key none
// or a later one. It returns apikey.ErrNotFound if no such key is stored. A crash leaves the revocation alone.
func (s *APIKeys) End(ctx context.Context, k apikey.Key) error {
	for _, end := range []struct {
		attribute string
		at        time.Time
	}{{"revoked_at", k.RevokedAt}, {"expires_at", k.ExpiresAt}} {
		if end.at.IsZero() {
			continue
		}
		if err := s.make(ctx, change{key: apiKeyKey(k.Hash), set: args{end.attribute: end.at},
			when:  "attribute_exists(key_hash) AND (attribute_not_exists(#end) OR #end > :at)",
			names: map[string]string{"#end": end.attribute}, values: args{":at": end.at},
		}, unless(apikey.ErrNotFound, nil), "ending "+k.ID); err != nil { // it may end earlier already
			return err
		}
	}
	return nil
}

// An apiKeyItem is an apikey.Key, whose hash and grant are stored as texts.
type apiKeyItem struct {
	Hash         apikey.Hash `dynamodbav:"-"`
	ID           string      `dynamodbav:"key_id"`
	MerchantID   string      `dynamodbav:"merchant_id"`
	MerchantName string      `dynamodbav:"merchant_name"`
	Mode         apikey.Mode `dynamodbav:"mode"`
	Prefix       string      `dynamodbav:"prefix"`
	Last4        string      `dynamodbav:"last4"`
	CreatedAt    time.Time   `dynamodbav:"created_at"`
	ExpiresAt    time.Time   `dynamodbav:"expires_at,omitempty"`
	Term         time.Time   `dynamodbav:"term,omitempty"`
	RevokedAt    time.Time   `dynamodbav:"revoked_at,omitempty"`
	LastUsedAt   time.Time   `dynamodbav:"last_used_at,omitempty"`
	Label        string      `dynamodbav:"label,omitempty"`
	apikey.Grant `dynamodbav:"-"`
}

func encodeAPIKey(k apikey.Key) attributes {
	grant, err := k.Grant.MarshalText()
	if err != nil { // none has a value that JSON cannot write
		panic(err)
	}
	item := encode(apiKeyItem(k))
	item[attrKeyHash], item["grant"] = text(hex.EncodeToString(k.Hash[:])), text(string(grant))
	return item
}

func decodeAPIKey(item attributes) (apikey.Key, error) {
	var it apiKeyItem
	r := read(item, &it)
	r.note("grant", it.Grant.UnmarshalText([]byte(textOf(item, "grant"))))
	hash, err := hex.DecodeString(textOf(item, attrKeyHash))
	r.require(attrKeyHash, err == nil && len(hash) == len(it.Hash))
	copy(it.Hash[:], hash)
	return decoded(r, apikey.Key(it), it.ID)
}
