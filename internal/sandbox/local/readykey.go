package local

import (
	"context"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// ReadyKey is the key of the merchant "Sandbox", which README and the welcome print. It
// may do everything that a merchant's first key may, with test money of one process, and
// everybody knows it. So only a stack with public key creation takes it, on the embedded
// chain, with tables in memory.
const ReadyKey = "remit_test_SandboxKey00_ReadyMadeForTheSandbox0000000000000000000003rK7qu"

func (s *process) hasReadyKey() bool {
	return s.chain.embedded != nil && s.DynamoDB == "" && s.KeyCreation == "public"
}

// storeReadyKey stores ReadyKey if hasReadyKey.
func (s *process) storeReadyKey(ctx context.Context) error {
	if !s.hasReadyKey() {
		return nil
	}
	secret, err := apikey.Parse(ReadyKey)
	if err != nil {
		return fmt.Errorf("reading the ready-made key: %w", err)
	}
	return s.tables.keys.Create(ctx, apikey.Key{
		Hash: secret.Hash(), ID: secret.ID(), MerchantID: "mer_SandboxMerchant0", MerchantName: "Sandbox",
		Mode: secret.Mode(), Prefix: secret.Prefix(), Last4: secret.Last4(),
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond), Grant: apikey.Full(),
	})
}
