package paymenttest_test

import (
	"testing"

	"remit/internal/payment/paymenttest"
)

func TestStore(t *testing.T) {
	paymenttest.Run(t, func(*testing.T) paymenttest.Stores {
		s := paymenttest.NewStore()
		return paymenttest.Stores{Ports: s, Spoil: s.Spoil, SpoilPendingTx: s.SpoilPendingTx}
	})
}
