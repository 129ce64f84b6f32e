// Package dynamo keeps the stores in three tables of DynamoDB. No other package knows DynamoDB. An item that decides
// about money is read strongly consistent and written under a condition. docs/tables.md describes the items. A field
// of an item never changes its meaning: fields are only added.
package dynamo

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Attributes that are keys of a table or an index, as in package schema and template.yaml; a test compares them.
const (
	attrPK            = "pk"
	attrSK            = "sk"
	attrKeyHash       = "key_hash"
	attrMerchantID    = "merchant_id"
	attrCreatedAt     = "created_at"
	attrShard         = "shard"
	attrNextAttemptAt = "next_attempt_at"
	attrListPK        = "list_pk" // merchant#<id>#<mode>#<bucket>, set when a payment is committed
	attrListSK        = "list_sk" // <created_at>#<payment id>, set with list_pk
	attrState         = "state"   // of a payment: payment.State
	attrToken         = "token_contract"
	attrAssigned      = "assigned_to" // of a wallet: its merchant
	attrTTL           = "ttl"         // epoch seconds
)

// Indexes. They may lag, so no decision about money reads one.
const (
	// indexMerchant of ApiKeys has the key merchant_id, created_at. That of Payments has the key list_pk, list_sk,
	// projects state, and holds committed payments, and the places of proposals about which something is to be done.
	indexMerchant = "merchant"
	// indexDue of Webhooks has the key shard, next_attempt_at, and holds only deliveries that wait for a retry.
	indexDue = "due"
)

// attributes are those of an item, or the values of an expression.
type attributes = map[string]types.AttributeValue

type primaryKey = attributes

func pair(pk, sk string) primaryKey { return primaryKey{attrPK: text(pk), attrSK: text(sk)} }

// Items of the table ApiKeys.

func hashKey(hash string) primaryKey { return primaryKey{attrKeyHash: text(hash)} }

func apiKeyKey(hash [32]byte) primaryKey { return hashKey(hex.EncodeToString(hash[:])) }

// issuedPrefix begins the key of the item that names a merchant's lately issued keys. A hash in hex has no "#".
const issuedPrefix = "issued#"

// idPrefix begins the key of the item that names a key's hash by its id.
const idPrefix = "id#"

// termsPrefix begins the key of the item that has a merchant's terms.
const termsPrefix = "merchant#"

// Items of the table Payments. One query reads a wallet and its pending transactions, in nonce order.

const paymentPrefix = "payment#"

func paymentKey(id payment.ID) primaryKey { return pair(paymentPrefix+string(id), "payment") }

func keyOf(id wallet.ID) primaryKey { return pair(walletPK(id), "wallet") }

func pendingTxKey(id wallet.ID, nonce uint64) primaryKey {
	return pair(walletPK(id), pendingTxSK(nonce))
}

const txPrefix = "tx#"

func txKey(hash string) primaryKey { return pair(txPrefix+hash, "tx") }

func spendKey(merchantID, mode string, now time.Time) primaryKey {
	return pair("merchant#"+merchantID, "spend#"+now.UTC().Format(time.DateOnly)+"#"+mode)
}

// guardPrefix makes a guard one of the merchant's items, which check-receipts may not write (template.yaml).
const guardPrefix = "merchant#guard#"

func guardKey(id string) primaryKey { return pair(guardPrefix+id, "guard") }

func walletListKey(id wallet.ID) primaryKey {
	return pair(walletPartition(id.ChainID), walletListPrefix+id.Address.String())
}

const walletListPrefix = "wallet#"

func walletPartition(chainID uint64) string { return "wallets#" + strconv.FormatUint(chainID, 10) }

// comparedKey is the key of the time at which a rail's wallets were compared. It
// names the table: in a copy of it, no item has the key that is asked for.
func comparedKey(c token.Coin, table string) primaryKey {
	return pair(fmt.Sprintf("compared#%d#%s", c.ChainID, c.Contract), table)
}

// ListBuckets is how many partitions of the index a merchant's list is spread over. A payment writes two units to one
// of them (its commit and its end), and a partition takes 1,000 a second (DynamoDB developer guide, "Best practices for
// designing and using partition keys effectively"), so that one merchant's list takes 8,000 payments a second. Reading
// a page costs a request to each. The number may grow, but never shrink: a list reads only so many buckets.
const ListBuckets = 16

// listPK and listSK are a payment's place in its merchant's list: a bucket by id, and text that sorts by time and id.

func listPK(prefix, id string) string {
	return bucketPK(prefix, crc32.ChecksumIEEE([]byte(id))%ListBuckets)
}

func bucketPK(prefix string, n uint32) string { return fmt.Sprintf("%s#%x", prefix, n) }

func listPrefix(merchantID, mode string) string { return "merchant#" + merchantID + "#" + mode }

// referencePrefix is listPrefix for the payments with a reference, whose list is items of the table.
func referencePrefix(merchantID, mode, reference string) string {
	return "reference#" + merchantID + "#" + mode + "#" + reference
}

// referenceKey is the key of a payment in the list of its reference; the item has nothing else.
func referenceKey(p payment.Payment) primaryKey {
	return pair(listPK(referencePrefix(p.Merchant, p.Mode, p.Reference), string(p.ID)), listSK(p.CreatedAt, string(p.ID)))
}

func listSK(createdAt time.Time, id string) string { return instant(createdAt) + "#" + id }

// duePK is the partition of the index that has the open proposals by the time at which something is to be done.
const duePK = "due"

func proposalsPK(merchant, mode string) string { return "proposals#" + merchant + "#" + mode }

func placeKey(p proposal.Proposal) primaryKey {
	return pair(proposalsPK(p.Payment.Merchant, p.Payment.Mode), listSK(p.CreatedAt, string(p.Payment.ID)))
}

// openKey is the key of the count of a merchant's open proposals.
func openKey(p proposal.Proposal) primaryKey {
	return pair(proposalsPK(p.Payment.Merchant, p.Payment.Mode), "~open") // behind every place
}

func walletPK(id wallet.ID) string { return fmt.Sprintf("wallet#%d#%s", id.ChainID, id.Address) }

const pendingTxPrefix = "pendingtx#"

// pendingTxSK pads the nonce to the 20 digits of the largest uint64, so that the text sorts by nonce.
func pendingTxSK(nonce uint64) string { return fmt.Sprintf("%s%020d", pendingTxPrefix, nonce) }

// Items of the table Webhooks: a partition for a merchant's endpoints, one for an endpoint's log, by delivery id.
const (
	endpointPrefix = "endpoint#"
	logPrefix      = "log#"
)

func endpointKey(o webhook.Owner, id string) primaryKey {
	return pair(o.Merchant, endpointPrefix+o.Mode+"#"+id)
}

// goneKey is the key of a deleted endpoint, outside the range that a list reads.
func goneKey(o webhook.Owner, id string) primaryKey {
	return pair(o.Merchant, "gone#"+o.Mode+"#"+id)
}

func countKey(o webhook.Owner) primaryKey { return pair(o.Merchant, "count#"+o.Mode) }

func logPK(o webhook.Owner, endpoint string) string {
	return logPrefix + o.Mode + "#" + o.Merchant + "#" + endpoint
}

func deliveryKey(r webhook.Ref) primaryKey { return pair(logPK(r.Owner, r.Endpoint), r.Delivery) }

func parseDeliveryKey(pk, sk string) (webhook.Ref, error) {
	parts := strings.Split(pk, "#")
	if len(parts) != 4 || parts[0]+"#" != logPrefix {
		return webhook.Ref{}, fmt.Errorf("%q is not the key of a log: %w", pk, errMissing)
	}
	return webhook.Ref{Owner: webhook.Owner{Mode: parts[1], Merchant: parts[2]}, Endpoint: parts[3], Delivery: sk}, nil
}
