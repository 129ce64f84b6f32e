// Command stage keeps the template deployed on a local AWS until it is
// interrupted, for people who practise an operator's tasks: `make stage`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/cli/client"
)

// variables is the file that a shell reads to address the stage, below the root
// of the repository.
const variables = ".cache/stage.env"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

// run deploys, tells where all is, and takes everything away when ctx ends.
func run(ctx context.Context, out io.Writer) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "remit-stage-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := localaws.Deploy(ctx, localaws.Config{Root: root, Dir: dir, Progress: out})
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // an interrupted step has nothing to say
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	merchant := &client.Client{URL: s.URL(""), HTTP: s.HTTP}
	if merchant.Key, err = merchant.CreateKey(ctx, "Acme"); err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	exports := append(s.Environment(), "SSL_CERT_FILE="+s.Bundle, "CURL_CA_BUNDLE="+s.Bundle, "REMIT_STACK="+localaws.StackName,
		"REMIT_CHAIN="+s.Chain.URL(), "REMIT_URL="+merchant.URL, "API="+merchant.URL, "KEY="+merchant.Key,
		"PATH="+filepath.Join(root, ".cache/bin")+":$PATH")
	file := filepath.Join(root, variables)
	var text strings.Builder
	for _, variable := range exports {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&text, "export %s=\"%s\"\n", name, value)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	fmt.Fprintf(out, welcome, s.URL(""), merchant.Key, s.Chain.URL(), localaws.BlockTime, localaws.ConfirmationRule, s.Log, variables,
		s.Chain.Wallets()[0].Address)
	<-ctx.Done()
	fmt.Fprintln(out, "Ending the local AWS.")
	return nil
}

// welcome tells where all is. Its last lines address the stage by the variables.
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
