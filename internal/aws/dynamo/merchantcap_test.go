package dynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestCountsOfTheVersionBefore: a wallet's item in which version 2827b88 has counted 250
// merchants, each in an attribute of its own, gives reservations, and rounds remove those
// counts. A recount of that version that has read them is refused, and is no error.
func TestCountsOfTheVersionBefore(t *testing.T) {
	s := newStage(t)
	key := keyOf("wallet#1#"+s.w.Address.String(), "wallet")
	change := func(expression string, names map[string]string, values map[string]types.AttributeValue) error {
		_, err := s.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: key, UpdateExpression: &expression, ConditionExpression: aws.String("recounts = :read"),
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		})
		return err
	}
	n := func(v int) types.AttributeValue { return &types.AttributeValueMemberN{Value: fmt.Sprint(v)} }
	must.Get(s.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: key, UpdateExpression: aws.String("SET recounts = :read REMOVE in_flight, reserved_for"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":read": n(7)},
	}))(s)
	for i := range 250 {
		s.must("counting", change("SET #m = :n", map[string]string{"#m": fmt.Sprint("taken#mer_", i)},
			map[string]types.AttributeValue{":n": n(i), ":read": n(7)}))
	}

	need := wallet.Need{Wallet: s.w.ID, Payment: s.p.ID, Amount: token.Units(1), Gas: token.Units(1), At: noon, Merchant: "mer_0", MerchantCap: 1}
	w := must.Get(s.Reserve(t.Context(), need))(s)
	if diff := cmp.Diff(map[string]uint64{"mer_0": 1}, w.PerMerchant); diff != "" {
		t.Errorf("in flight (-want +got):\n%s", diff)
	}
	need.Payment = payment.ID("pay_other")
	if _, err := s.Reserve(t.Context(), need); !errors.Is(err, wallet.ErrMerchantCap) {
		t.Errorf("a second reservation: %v, want %v", err, wallet.ErrMerchantCap)
	}
	for round, left := range []int{150, 50, 0, 0} {
		s.must("reconciling", s.Reconcile(t.Context(), w, token.Units(9), token.Units(9), w.PerMerchant, nil))
		counts := 0
		for _, item := range s.items() {
			for name := range item {
				counts += strings.Count(name, "taken#")
			}
		}
		s.meddle = nil
		if counts != left {
			t.Errorf("after round %d, %d counts of the version before are left, want %d", round+1, counts, left)
		}
	}
	err := change("SET recounts = :next, #m = #m - :n", map[string]string{"#m": "taken#mer_1"},
		map[string]types.AttributeValue{":n": n(1), ":read": n(7), ":next": n(8)})
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); !refused {
		t.Errorf("a recount of the version before: %v", err)
	}
	got := must.Get(s.Wallet(t.Context(), s.w.ID))(s)
	if got.Balance != token.Units(9) || got.NextNonce != 6 || len(got.PerMerchant) != 1 {
		t.Errorf("the wallet is %+v", got)
	}
}
