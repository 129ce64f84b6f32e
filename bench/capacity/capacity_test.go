package capacity

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

func TestSizeOfFollowsTheDeveloperGuide(t *testing.T) {
	item := map[string]types.AttributeValue{
		"pk":    &types.AttributeValueMemberS{Value: "payment"},                                                                       // 2 + 7
		"raw":   &types.AttributeValueMemberB{Value: make([]byte, 180)},                                                               // 3 + 180
		"nonce": &types.AttributeValueMemberN{Value: "1234"},                                                                          // 5 + 3
		"zero":  &types.AttributeValueMemberN{Value: "0"},                                                                             // 4 + 1
		"on":    &types.AttributeValueMemberBOOL{Value: true},                                                                         // 2 + 1
		"list":  &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberS{Value: "ab"}}},               // 4 + 3 + 1 + 2
		"map":   &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"a": &types.AttributeValueMemberS{Value: "bc"}}}, // 3 + 3 + 1 + 1 + 2
	}
	if got, want := sizeOf(item), 9+183+8+5+3+10+10; got != want {
		t.Errorf("sizeOf = %d; want %d", got, want)
	}
}

func TestMeterTellsReadsFromWrites(t *testing.T) {
	var m meter
	m.note("GetItem", nil, &dynamodb.GetItemOutput{ConsumedCapacity: &types.ConsumedCapacity{CapacityUnits: aws.Float64(2)}})
	m.note("TransactWriteItems", nil, &dynamodb.TransactWriteItemsOutput{ConsumedCapacity: []types.ConsumedCapacity{
		{CapacityUnits: aws.Float64(6)}, {CapacityUnits: aws.Float64(4)}}})
	m.note("PutItem", nil, &dynamodb.PutItemOutput{})
	m.note("DescribeTable", nil, &dynamodb.DescribeTableOutput{}) // consumes nothing that is told
	want := map[string]Units{"GetItem": {1, 2, 0}, "TransactWriteItems": {1, 0, 10}, "PutItem": {1, 0, 0}}
	got := m.take()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Units{3, 2, 10}, total(got)); diff != "" {
		t.Error(diff)
	}
	if m.take() != nil {
		t.Error("what was taken is still there")
	}
}

func TestAskSetsWhatAnInputHas(t *testing.T) {
	in := &dynamodb.PutItemInput{}
	ask(in)
	if in.ReturnConsumedCapacity != types.ReturnConsumedCapacityTotal {
		t.Errorf("ReturnConsumedCapacity = %q", in.ReturnConsumedCapacity)
	}
	ask(&dynamodb.DescribeTableInput{}) // has none, and does not panic
}

func TestTransactedCountsEveryKilobyteOfEveryItemTwice(t *testing.T) {
	for _, row := range []struct {
		sizes []int
		want  float64
	}{
		{nil, 0}, {[]int{1}, 2}, {[]int{1024}, 2}, {[]int{1025}, 4}, {[]int{1228, 507, 121}, 8},
	} {
		if got := transacted(row.sizes...); got != row.want {
			t.Errorf("transacted(%v) = %v; want %v", row.sizes, got, row.want)
		}
	}
}
