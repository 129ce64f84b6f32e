package capacity

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// sizeOf returns the bytes DynamoDB charges an item for: names and values in
// UTF-8, a number about a byte per two digits and one more, three bytes for a
// list or map and one for each of its entries (DynamoDB developer guide,
// "DynamoDB item sizes and formats").
func sizeOf(item map[string]types.AttributeValue) int {
	bytes := 0
	for name, v := range item {
		bytes += len(name) + valueSize(v)
	}
	return bytes
}

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		digits := len(strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(v.Value), "0"))
		return (digits+1)/2 + 1
	case *types.AttributeValueMemberL:
		bytes := 3
		for _, entry := range v.Value {
			bytes += 1 + valueSize(entry)
		}
		return bytes
	case *types.AttributeValueMemberM:
		bytes := 3
		for name, entry := range v.Value {
			bytes += 1 + len(name) + valueSize(entry)
		}
		return bytes
	case *types.AttributeValueMemberSS:
		bytes := 0
		for _, s := range v.Value {
			bytes += len(s)
		}
		return bytes
	default: // a boolean or null
		return 1
	}
}
