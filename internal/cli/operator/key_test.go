package operator_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// stolen are keys of which the first makes another one just before it is revoked.
type stolen struct {
	*memory.APIKeys
	rotate func()
}

func (s *stolen) Revoke(ctx context.Context, merchant string, hash apikey.Hash, at time.Time) (apikey.Key, error) {
	if rotate := s.rotate; rotate != nil {
		s.rotate = nil
		rotate()
	}
	return s.APIKeys.Revoke(ctx, merchant, hash, at)
}

// TestAThiefsKeysEnd: revoke-all ends every key of a merchant, even one that is made while it runs.
func TestAThiefsKeysEnd(t *testing.T) {
	keys := &stolen{APIKeys: new(memory.APIKeys)}
	registry := apikey.NewRegistry(keys, apikey.Test, time.Now, rand.Reader)
	made := must.Get(registry.Create(t.Context(), "Acme", apikey.KeyRequest{}))(t)
	keys.rotate = func() {
		must.Get(registry.Rotate(t.Context(), made.Key, made.Key.ID, time.Hour, func(context.Context, apikey.Key) error { return nil }))(t)
	}
	local := operatortest.Empty(t, stack.Config{})
	local.Keys = keys
	out, err := operatortest.Local(t.Context(), local, "keys", "revoke-all", "--merchant", made.Key.MerchantID, "--yes")
	if err != nil || !strings.HasPrefix(out, "2 keys end\n") {
		t.Errorf("%q, %v", out, err)
	}
}
