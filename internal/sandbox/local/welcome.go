package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// sample is a recipient for the curl lines: an ordinary address to which no key is known.
const sample = "0x2222222222222222222222222222222222222222"

func welcome(ctx context.Context, w io.Writer, s *process) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "\nRemit is ready.\n\n")
	if s.page != nil {
		fmt.Fprintf(&b, "  page       %s/  watch payments, break things, see the chain's own count\n", s.url)
	}
	fmt.Fprintf(&b, "  API        %[1]s\n  explorer   %[1]s/docs\n  sandbox    %[1]s/sandbox\n", s.url)
	variable := map[bool]string{true: "REMIT_CHAIN="}[s.rails[0].embedded != nil] // which remit chain fund reads
	if facts, err := s.facts(ctx); err == nil {
		for _, a := range facts.Assets {
			fmt.Fprintf(&b, "  chain      %s%s (chain id %d, a block every %s, final after %s)\n", variable,
				a.RPCURL, a.ChainID, s.BlockTime, s.ConfirmationRule)
			fmt.Fprintf(&b, "  token      %s %s\n  wallets    %d\n", a.Token.Symbol, a.Token.Address, len(a.Wallets))
		}
	}
	for _, err := range s.rails[0].silent {
		fmt.Fprintf(&b, "  warning    %v\n", err)
	}
	store := "in memory, gone when this ends"
	if s.DynamoDB != "" {
		store = "DynamoDB at " + s.DynamoDB
	}
	fmt.Fprintf(&b, "  data       %s\n  commands   export REMIT_STACK=%s REMIT_URL=%[2]s, then %s wallet list "+
		"(docs/operate.md)\n", store, s.url, os.Args[0])
	fmt.Fprintf(&b, "\nPaste these to pay somebody:\n\n%s\nCtrl-C ends it.\n\n", s.curls())
	_, _ = io.WriteString(w, b.String())
}

// curls are the lines that README shows. A stack without the ready-made key first makes a
// key, with the operator's command if keys are not public.
func (s *process) curls() string {
	key := "export KEY=" + ReadyKey
	if s.readyKey() == "" {
		create := fmt.Sprintf(`curl -s %s/create-api-key -H 'Content-Type: application/json' -d '{"merchant_name":"Acme"}'`, s.url)
		if s.KeyCreation != "public" {
			create = fmt.Sprintf("%s keys create Acme --yes --stack %s", os.Args[0], s.url)
		}
		key = fmt.Sprintf("export KEY=$(%s | grep -o 'remit_test_[0-9A-Za-z]*_[0-9A-Za-z]*')", create)
	}
	return fmt.Sprintf(`  %[3]s
  curl -s %[1]s/send-payment -H "x-api-key: $KEY" -H 'Idempotency-Key: inv-2041' -H 'Content-Type: application/json' \
    -d '{"to":"%[2]s","amount":1000000}'
  sleep 4; curl -s "%[1]s/transactions?idempotency_key=inv-2041" -H "x-api-key: $KEY"
`, s.url, sample, key)
}

// ReadyKey is the key of the merchant "Sandbox", which README and the welcome print: everybody knows it. It may do all
// that a first key may, and only a stack with public keys, the embedded chain and tables in memory takes it.
const ReadyKey = "remit_test_SandboxKey00_ReadyMadeForTheSandbox0000000000000000000003rK7qu"

// readyKey returns ReadyKey, or "" where the stack does not take it.
func (s *process) readyKey() string {
	if s.rails[0].embedded != nil && s.DynamoDB == "" && s.KeyCreation == "public" {
		return ReadyKey
	}
	return ""
}

func (s *process) storeReadyKey(ctx context.Context) error {
	if s.readyKey() == "" {
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
