package localaws

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// variables is the file that a shell reads to address the stack, below the root of the repository.
const variables = ".cache/stage.env"

// Invite explains how to use the stack from a shell, where remit is in the directory
// bin. It makes a merchant's key, and a file with variables that leave removes.
func (s *Stack) Invite(ctx context.Context, out io.Writer, bin string) (leave func() error, err error) {
	merchant := &remit.Client{URL: s.URL(""), HTTP: s.HTTP}
	made, err := merchant.CreateMerchant(ctx, remit.CreateAPIKeyRequest{MerchantName: "Acme"})
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	merchant.Key = made.APIKey
	exports := append(s.Environment(), "SSL_CERT_FILE="+s.Bundle, "CURL_CA_BUNDLE="+s.Bundle, "REMIT_STACK="+StackName,
		"REMIT_CHAIN="+s.Chain.URL(), "REMIT_URL="+merchant.URL, "API="+merchant.URL, "KEY="+merchant.Key, "PATH="+bin+":$PATH")
	var text strings.Builder
	for _, variable := range exports {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&text, "export %s=\"%s\"\n", name, value)
	}
	file := filepath.Join(s.Root, variables)
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, welcome, s.URL(""), merchant.Key, s.Chain.URL(), BlockTime, ConfirmationRule, s.Log, variables,
		s.Chain.Wallets()[0].Address)
	return func() error { return os.Remove(file) }, nil
}

// welcome lists the addresses. Its last lines address the stage by the variables.
const welcome = `
The template is deployed on a local AWS, every function under its own role.

  API      %s
  key      %s
  chain    %s (a block every %s, final after %d)
  log      %s

In another terminal, in this directory, let the shell read where it is (AWS_ENDPOINT_URL, REMIT_STACK, API, KEY and others):

  . %s

Then, as an operator (docs/operate.md has every task):

  remit doctor
  remit wallet list
  remit keys create --yes 'Acme GmbH'
  remit chain fund %s

and as a merchant:

  curl -s $API/send-payment -H "x-api-key: $KEY" -H 'Content-Type: application/json' -d '{"to":"0x2222222222222222222222222222222222222222","amount":1000000}'
  remit smoke

Ctrl-C ends it, and nothing is left.
`
