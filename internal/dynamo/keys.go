// Package dynamo is every line of DynamoDB there is: three tables, their keys,
// and one file per store that is kept in them. Whatever decides about money is
// read strongly consistent and written under a condition.
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
	attrListSK        = "list_sk" // <created_at>#<payment id>, the same
	attrState         = "state"   // of a payment: PREPARED, COMMITTED, CONFIRMED, FAILED
	attrTTL           = "ttl"     // epoch seconds
)

// Indexes. Nothing that decides about money reads one.
const (
	indexMerchant = "merchant" // ApiKeys: merchant_id, created_at. Payments: list_pk, list_sk and, projected, state; only committed payments are in it
	indexDue      = "due"      // Webhooks: shard, next_attempt_at; only deliveries that wait for a retry are in it
)

// A key is the primary key of one item.
type key = map[string]types.AttributeValue

func pair(pk, sk string) key { return key{attrPK: text(pk), attrSK: text(sk)} }

// Items of the table ApiKeys.

func apiKeyKey(hash [32]byte) key { return key{attrKeyHash: text(hex.EncodeToString(hash[:]))} }

// Items of the table Payments. Everything of one wallet is one partition, so
// that a pass over it is one query in nonce order.

const paymentPrefix = "payment#"

func paymentKey(id string) key { return pair(paymentPrefix+id, "payment") }

func walletKey(chainID uint64, address string) key { return pair(walletPK(chainID, address), "wallet") }

func pendingTxKey(chainID uint64, address string, nonce uint64) key {
	return pair(walletPK(chainID, address), pendingTxSK(nonce))
}

func txKey(hash string) key { return pair("tx#"+hash, "tx") }

func spendKey(merchantID, mode string, now time.Time) key {
	return pair("merchant#"+merchantID, "spend#"+now.UTC().Format(time.DateOnly)+"#"+mode)
}

// walletListKey is the key of one wallet's entry in the list of a chain's wallets.
func walletListKey(chainID uint64, address string) key {
	return pair(walletListPK(chainID), walletListPrefix+address)
}

const walletListPrefix = "wallet#"

func walletListPK(chainID uint64) string { return "wallets#" + strconv.FormatUint(chainID, 10) }

// listPK and listSK are a payment's place in its merchant's list. Text sorts
// as (time, id) does.

func listPK(merchantID, mode string) string { return "merchant#" + merchantID + "#" + mode }

func listSK(createdAt time.Time, id string) string { return instantText(createdAt) + "#" + id }

func walletPK(chainID uint64, address string) string {
	return "wallet#" + strconv.FormatUint(chainID, 10) + "#" + address
}

const pendingTxPrefix = "pendingtx#"

// pendingTxSK pads to the 20 digits of the largest uint64, so that text sorts as
// numbers do.
func pendingTxSK(nonce uint64) string { return fmt.Sprintf("%s%020d", pendingTxPrefix, nonce) }

// text, number, instant and moment are the ways a value lies in a table.

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n uint64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(n, 10)}
}

// instant keeps nanoseconds, in UTC and at a fixed width: text sorts as time
// does.
func instant(t time.Time) types.AttributeValue { return text(t.UTC().Format(instantLayout)) }

const instantLayout = "2006-01-02T15:04:05.000000000Z" // RFC 3339

// instantText is the text of instant; the zero time is "", to be omitted.
func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(instantLayout)
}

// moment keeps the decimals that a time has, for times that nothing sorts or
// compares as text: most have three, and six bytes each decide how many write
// units an item costs.
func moment(t time.Time) types.AttributeValue { return text(momentText(t)) }

// momentText is the text of moment; the zero time is "", to be omitted.
func momentText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// parseInstant reads what instantText and momentText wrote.
func parseInstant(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}
