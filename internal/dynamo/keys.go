// Package dynamo keeps the stores in three tables of DynamoDB. No other package
// knows DynamoDB. An item that decides about money is read strongly consistent
// and written under a condition. docs/tables.md describes the items.
package dynamo

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes that are keys of a table or an index. tables.go and template.yaml
// declare them with these names; a test compares the two.
const (
	attrPK            = "pk"
	attrSK            = "sk"
	attrKeyHash       = "key_hash"
	attrMerchantID    = "merchant_id"
	attrCreatedAt     = "created_at"
	attrShard         = "shard"
	attrNextAttemptAt = "next_attempt_at"
	attrListPK        = "list_pk" // merchant#<id>#<mode>, set when a payment is committed
	attrListSK        = "list_sk" // <created_at>#<payment id>, set with list_pk
	attrState         = "state"   // of a payment: PREPARED, COMMITTED, CONFIRMED, FAILED
	attrTTL           = "ttl"     // epoch seconds
)

// Indexes. They may lag, so no decision about money reads one.
const (
	// indexMerchant of ApiKeys has the key merchant_id, created_at. That of
	// Payments has the key list_pk, list_sk, projects state, and holds
	// committed payments only.
	indexMerchant = "merchant"
	// indexDue of Webhooks has the key shard, next_attempt_at, and holds only
	// deliveries that wait for a retry.
	indexDue = "due"
)

// attributes are those of an item, or the values of an expression.
type attributes = map[string]types.AttributeValue

// A primaryKey is the primary key of one item.
type primaryKey = attributes

func pair(pk, sk string) primaryKey { return primaryKey{attrPK: text(pk), attrSK: text(sk)} }

// Items of the table ApiKeys.

func apiKeyKey(hash [32]byte) primaryKey {
	return primaryKey{attrKeyHash: text(hex.EncodeToString(hash[:]))}
}

// Items of the table Payments. A wallet and its pending transactions are one
// partition, so that one query reads them in nonce order.

const paymentPrefix = "payment#"

func paymentKey(id string) primaryKey { return pair(paymentPrefix+id, "payment") }

func walletKey(chainID uint64, address string) primaryKey {
	return pair(walletPK(chainID, address), "wallet")
}

func pendingTxKey(chainID uint64, address string, nonce uint64) primaryKey {
	return pair(walletPK(chainID, address), pendingTxSK(nonce))
}

func txKey(hash string) primaryKey { return pair("tx#"+hash, "tx") }

func spendKey(merchantID, mode string, now time.Time) primaryKey {
	return pair("merchant#"+merchantID, "spend#"+now.UTC().Format(time.DateOnly)+"#"+mode)
}

// walletListKey is the key of a wallet's entry in the list of its chain's
// wallets.
func walletListKey(chainID uint64, address string) primaryKey {
	return pair(walletListPK(chainID), walletListPrefix+address)
}

const walletListPrefix = "wallet#"

func walletListPK(chainID uint64) string { return "wallets#" + strconv.FormatUint(chainID, 10) }

// listPK and listSK are a payment's place in its merchant's list. listSK sorts
// as text by time, then by id.

func listPK(merchantID, mode string) string { return "merchant#" + merchantID + "#" + mode }

func listSK(createdAt time.Time, id string) string { return instantText(createdAt) + "#" + id }

func walletPK(chainID uint64, address string) string {
	return "wallet#" + strconv.FormatUint(chainID, 10) + "#" + address
}

const pendingTxPrefix = "pendingtx#"

// pendingTxSK pads the nonce to the 20 digits of the largest uint64, so that the
// text sorts by nonce.
func pendingTxSK(nonce uint64) string { return fmt.Sprintf("%s%020d", pendingTxPrefix, nonce) }

// text, number, instant and moment encode a value as an attribute.

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

// instant keeps nanoseconds, in UTC and at a fixed width, so that the text sorts
// by time.
func instant(t time.Time) types.AttributeValue { return text(t.UTC().Format(instantLayout)) }

const instantLayout = "2006-01-02T15:04:05.000000000Z" // RFC 3339

// instantText is the text of instant; the zero time is "", to be omitted.
func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(instantLayout)
}

// moment keeps only the decimals that a time has, for times that are never
// sorted or compared as text. Most have three decimals; the six bytes saved by
// each keep an item below the next write unit.
func moment(t time.Time) types.AttributeValue { return text(momentText(t)) }

// momentText is the text of moment; the zero time is "", to be omitted.
func momentText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// parseInstant is the inverse of instantText and of momentText.
func parseInstant(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}
