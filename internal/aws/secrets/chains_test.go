package secrets_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestWithChain: a chain's new nodes leave the others'.
func TestWithChain(t *testing.T) {
	text := must.Get(secrets.WithChain([]byte(`{"7":{"urls":["https://b"]},"note":"x"}`), 8, []string{"https://c", "https://d"}))(t)
	got := must.Get(secrets.RPC([]byte(text)))(t)
	if diff := cmp.Diff(map[uint64][]string{7: {"https://b"}, 8: {"https://c", "https://d"}}, got); diff != "" {
		t.Error(diff)
	}
}
