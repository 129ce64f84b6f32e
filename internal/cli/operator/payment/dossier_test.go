package payment_test

import (
	"strings"
	"testing"

	room "github.com/remit-payouts/remit/internal/cli/operator/payment"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// TestReferencesOfABatch reach a terminal quoted: a merchant has chosen them.
func TestReferencesOfABatch(t *testing.T) {
	text := room.Dossier{}.Text(payment.Payment{Entries: []payment.Entry{{Reference: "\x1b[2J\u009b\n"}}})
	if strings.ContainsAny(text, "\x1b\u009b") || !strings.Contains(text, `"\x1b[2J\u009b\n"`) {
		t.Errorf("%q", text)
	}
}
