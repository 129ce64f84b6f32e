package dynamo_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// TestProgressBesideOtherVersions: the claim of a run of an earlier version hides the progress,
// which its rounds do not keep; damage to it damages nothing else; and with as many blocks as a
// wallet keeps, an item with four merchants in flight and a reservation still takes one write unit.
func TestProgressBesideOtherVersions(t *testing.T) {
	s := newStage(t)
	seen := &wallet.Progress{Mined: wallet.Mined{First: 123_456, Hash: [8]byte{1}}, Sent: 123_600, Head: 24_000_000, Depth: new(uint64(12))}
	for i := range uint64(wallet.MaxBlocks) {
		seen.Mined.Runs = append(seen.Mined.Runs, wallet.Run{Block: 23_000_000 + i, Count: 1})
	}
	counts := map[string]uint64{}
	for i := range 4 {
		counts[fmt.Sprintf("mer_%026d", i)] = 16
	}
	s.must("reconciling", s.Reconcile(t.Context(), s.w, token.Units(1e18), token.Units(1e18), counts, nil))
	claim := func() {
		t.Helper()
		_, err := s.Claim(t.Context(), s.w.ID, "0f0e9a2c-3b1d-4c5e-8f7a-9b0c1d2e3f4a", noon, noon, seen)
		s.must("claiming", err)
	}
	shown := func() uint64 {
		t.Helper()
		w, err := s.Wallet(t.Context(), s.w.ID)
		if s.must("reading", err); w.Damaged != "" {
			t.Errorf("the wallet is damaged: %s", w.Damaged)
		}
		block, _ := w.Progress.Mined.Of(123_457)
		return block
	}
	update := func(expression string, value types.AttributeValue) float64 {
		t.Helper()
		out, err := s.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: keyOf("wallet#1#"+s.w.Address.String(), "wallet"), UpdateExpression: &expression,
			ExpressionAttributeValues: map[string]types.AttributeValue{":v": value}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		s.must("updating", err)
		return aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
	}
	text := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	s.reserve()
	claim()
	if got := shown(); got != 23_000_001 {
		t.Errorf("block %d", got)
	}
	if units := update("SET paused = :v", text("because")); units != 1 {
		t.Errorf("a write of the wallet takes %v units", units)
	}
	update("SET claimed_by = :v", text("a run of the version before"))
	if got := shown(); got != 0 {
		t.Errorf("block %d under the claim of an earlier version", got)
	}
	claim()
	if got := shown(); got != 23_000_001 {
		t.Errorf("block %d after another claim", got)
	}
	for _, damage := range []types.AttributeValue{text("x"), &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"mined": &types.AttributeValueMemberB{Value: []byte{1, 2, 3}}}}} {
		update("SET progress = :v", damage)
		if got := shown(); got != 0 {
			t.Errorf("block %d of damaged progress", got)
		}
	}
}
