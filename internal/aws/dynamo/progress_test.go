package dynamo_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestDamagedProgress: damage to a wallet's progress damages nothing else.
func TestDamagedProgress(t *testing.T) {
	s := newStage(t)
	must.Get(s.Claim(t.Context(), s.w.ID, "run", noon, noon, &wallet.Progress{Mined: 7}))(s)
	must.Get(s.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: keyOf("wallet#1#"+s.w.Address.String(), "wallet"), UpdateExpression: aws.String("SET progress = :v"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "x"}},
	}))(s)
	if w := must.Get(s.Wallet(t.Context(), s.w.ID))(s); w.Damaged != "" || w.Progress.Mined != 0 {
		t.Errorf("%q, %+v", w.Damaged, w.Progress)
	}
}
