package dynamo

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// encode returns the attributes of an item, a struct of this package. None has a field that cannot be encoded.
func encode(item any) attributes { return encodeValue(item).(*types.AttributeValueMemberM).Value }

// args are values of expressions. A time is an instant; an encoded value stays as it is.
type args = map[string]any

func encodeValue(v any) types.AttributeValue {
	if encoded, ok := v.(types.AttributeValue); ok {
		return encoded
	}
	encoded, err := attributevalue.MarshalWithOptions(v, func(o *attributevalue.EncoderOptions) {
		o.OmitEmptyTime = true
		o.EncodeTime = func(t time.Time) (types.AttributeValue, error) { return text(instant(t)), nil }
	})
	if err != nil {
		panic("dynamo: encoding texts, numbers and bytes: " + err.Error())
	}
	return encoded
}

func text[S ~string](s S) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: string(s)}
}

// orNone is nil, for an attribute that is not there, in place of a zero value.
func orNone[V comparable](v V) any {
	if v == *new(V) {
		return nil
	}
	return v
}

// instant returns the text of a time, which keeps nanoseconds, in UTC and at a fixed width, so that the text sorts by
// time. The zero time is "", to be omitted.
func instant(t time.Time) string { return layOut(t, "2006-01-02T15:04:05.000000000Z") } // RFC 3339

// moment keeps only the decimals that a time has, for times that are never sorted or compared as text. Most have three;
// the six bytes saved by each keep an item below the next write unit. The zero time is "", to be omitted.
func moment(t time.Time) string { return layOut(t, time.RFC3339Nano) }

func layOut(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

// units encodes an amount of at most 38 digits as a number, which conditions can compare and updates subtract from.
func units(a token.Amount) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: a.String()}
}

func textSet(all ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: all} }

func texts(hashes []chain.Hash) []string {
	list := make([]string, len(hashes))
	for i, h := range hashes {
		list[i] = h.String()
	}
	return list
}
