package dynamo

import (
	"fmt"
	"strings"

	"remit/internal/webhook"
)

// Items of the table Webhooks. All endpoints of a merchant are one partition,
// and so is the log of one endpoint, in the order of its deliveries' ids.
const (
	endpointPrefix = "endpoint#"
	gonePrefix     = "gone#"
	countPrefix    = "count#"
	logPrefix      = "log#"
)

func endpointKey(o webhook.Owner, id string) key {
	return pair(o.Merchant, endpointPrefix+o.Mode+"#"+id)
}

// goneKey is where a deleted endpoint lies, out of the way of the others.
func goneKey(o webhook.Owner, id string) key { return pair(o.Merchant, gonePrefix+o.Mode+"#"+id) }

// countKey is the item that counts a merchant's endpoints.
func countKey(o webhook.Owner) key { return pair(o.Merchant, countPrefix+o.Mode) }

func logPK(o webhook.Owner, endpoint string) string {
	return logPrefix + o.Mode + "#" + o.Merchant + "#" + endpoint
}

func deliveryKey(r webhook.Ref) key { return pair(logPK(r.Owner, r.Endpoint), r.Delivery) }

// parseDeliveryKey reads what deliveryKey wrote.
func parseDeliveryKey(pk, sk string) (webhook.Ref, error) {
	parts := strings.Split(pk, "#")
	if len(parts) != 4 || parts[0]+"#" != logPrefix {
		return webhook.Ref{}, fmt.Errorf("%q is not the key of a log: %w", pk, errMissing)
	}
	return webhook.Ref{Owner: webhook.Owner{Mode: parts[1], Merchant: parts[2]}, Endpoint: parts[3], Delivery: sk}, nil
}

// deliveryShards is how many partitions of the due index parked deliveries are
// spread over. One takes 1,000 writes a second; a look into each costs half a
// read unit a minute.
const deliveryShards = 4

// shard is the one a delivery parks in; the end of its id is random.
func shard(delivery string) string {
	if delivery == "" {
		return "0"
	}
	return fmt.Sprint(int(delivery[len(delivery)-1]) % deliveryShards)
}
