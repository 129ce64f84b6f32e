package dynamo

import (
	"fmt"
	"strings"

	"remit/internal/webhook"
)

// Items of the table Webhooks. All endpoints of a merchant are one partition. The
// log of an endpoint is another, sorted by its deliveries' ids.
const (
	endpointPrefix = "endpoint#"
	gonePrefix     = "gone#"
	countPrefix    = "count#"
	logPrefix      = "log#"
)

func endpointKey(o webhook.Owner, id string) primaryKey {
	return pair(o.Merchant, endpointPrefix+o.Mode+"#"+id)
}

// goneKey is the key of a deleted endpoint, outside the range that a list reads.
func goneKey(o webhook.Owner, id string) primaryKey {
	return pair(o.Merchant, gonePrefix+o.Mode+"#"+id)
}

// countKey is the key of the item that counts a merchant's endpoints.
func countKey(o webhook.Owner) primaryKey { return pair(o.Merchant, countPrefix+o.Mode) }

func logPK(o webhook.Owner, endpoint string) string {
	return logPrefix + o.Mode + "#" + o.Merchant + "#" + endpoint
}

func deliveryKey(r webhook.Ref) primaryKey { return pair(logPK(r.Owner, r.Endpoint), r.Delivery) }

// parseDeliveryKey is the inverse of deliveryKey.
func parseDeliveryKey(pk, sk string) (webhook.Ref, error) {
	parts := strings.Split(pk, "#")
	if len(parts) != 4 || parts[0]+"#" != logPrefix {
		return webhook.Ref{}, fmt.Errorf("%q is not the key of a log: %w", pk, errMissing)
	}
	return webhook.Ref{Owner: webhook.Owner{Mode: parts[1], Merchant: parts[2]}, Endpoint: parts[3], Delivery: sk}, nil
}

// deliveryShards is the number of partitions that parked deliveries are spread
// over in the due index. Each takes 1,000 writes a second; reading each once a
// minute costs half a read unit a minute.
const deliveryShards = 4

// shard returns the shard of a delivery's id, whose last digit is random.
func shard(delivery string) string {
	if delivery == "" {
		return "0"
	}
	return fmt.Sprint(int(delivery[len(delivery)-1]) % deliveryShards)
}
