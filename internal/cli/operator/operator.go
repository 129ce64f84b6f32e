// Package operator has the commands for a stack on AWS or in a process of this machine. They use the rights of the
// person who runs them, and change a stack only through package change. None prints a key, and only recover reads any.
package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/cli/operator/audit"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deny"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/key"
	"github.com/remit-payouts/remit/internal/cli/operator/merchant"
	"github.com/remit-payouts/remit/internal/cli/operator/payment"
	"github.com/remit-payouts/remit/internal/cli/operator/setting"
	"github.com/remit-payouts/remit/internal/cli/operator/wallet"
	"github.com/remit-payouts/remit/internal/cli/operator/webhook"
)

// Commands are the commands of an operator.
type Commands struct {
	Wallet    wallet.Commands   `cmd:"" help:"Create, fund and retire the wallets that pay."`
	Keys      key.Commands      `cmd:"" help:"Issue and revoke merchants' API keys."`
	Merchants merchant.Commands `cmd:"" help:"List, suspend and limit merchants."`
	Payment   payment.Commands  `cmd:"" help:"Show or redact a payment."`
	Proposals payment.Proposals `cmd:"" help:"List a merchant's proposals."`
	Batch     wallet.Batch      `cmd:"" help:"Set up the contract that pays batches."`
	Deny      deny.Commands     `cmd:"" help:"Block recipients."`
	Rails     setting.Rails     `cmd:"" help:"Add, list, close and open the assets that are paid."`
	Settings  setting.Commands  `cmd:"" help:"Show and change limits, fees and windows."`
	Webhooks  webhook.Commands  `cmd:"" help:"List endpoints; resend what failed."`
	Audit     audit.Command     `cmd:"" help:"Compare the tables with the chain."`
	AuditLog  change.Log        `cmd:"" help:"List operators' changes."`
	Export    payment.Export    `cmd:"" help:"Write payments as lines of JSON, or as CSV."`
	OnAWS

	Recover change.Command[payment.Recovering] `cmd:"" help:"Restore lost payments from the chain."`
}

// socket returns the file of the socket at which the stack that serves the API at an address takes commands, and makes
// its directory. It refuses one that another user made or can write to, who could stand in for a stack.
func socket(address string) (string, error) {
	dir := filepath.Join(cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()), fmt.Sprint("remit-", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // a directory of the user's own choice
		return "", fmt.Errorf("making the directory of operators' commands: %w", err)
	}
	info, err := os.Lstat(dir) //nolint:gosec // the same
	if err != nil {
		return "", err
	}
	if own, ok := info.Sys().(*syscall.Stat_t); !ok || int(own.Uid) != os.Getuid() || info.Mode() != os.ModeDir|0o700 {
		return "", fmt.Errorf("%s is no directory of yours alone (mode 0700); remove it, or set XDG_RUNTIME_DIR", dir)
	}
	return filepath.Join(dir, strings.Replace(address, "localhost", "127.0.0.1", 1)+".sock"), nil
}

// Serve runs operators' commands in this process, which serves the API at an address, until the result is closed.
func Serve(address string, stack deployed.Local) (io.Closer, error) {
	path, err := socket(address)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(path) // of a process that was killed: no other one serves the API there now
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("taking operators' commands: %w", err)
	}
	stack.URL = "http://" + address
	server := &http.Server{Handler: Handler(&stack), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	return server, nil
}

type request struct {
	Args []string
	Dir  string
}

type response struct {
	Out          string
	Consequences string // that the command showed, if it changes anything
	Asks         bool   // for consent to them; nothing was done
	Error        string // "" if all went well
}

// Handler runs commands for a stack in this process, one for each request.
func Handler(stack *deployed.Local) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ended response
		if err := ended.run(stack, r); err != nil {
			ended.Error = err.Error()
		}
		_ = json.NewEncoder(w).Encode(ended) // fails if the operator has gone
	}
}

func (e *response) run(stack *deployed.Local, r *http.Request) error {
	var typed request
	if err := json.NewDecoder(r.Body).Decode(&typed); err != nil {
		return err
	}
	var commands Commands
	var out strings.Builder
	defer func() { e.Out = out.String() }()
	ctx := change.Recorded(stack.Context(r.Context()), typed.Args, func(_ context.Context, yes bool, all string) error {
		e.Consequences, e.Asks = all, !yes
		if !yes { // the client asks the operator, and sends the command again with --yes
			return change.ErrDeclined
		}
		return nil
	})
	parsed, err := kong.Must(&commands, kong.NoDefaultHelp(), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(&out, (*io.Writer)(nil))).Parse(typed.Args)
	if err != nil {
		return err
	}
	for _, file := range []*string{&commands.Wallet.Import.Line.File, &commands.Settings.Apply.Line.File} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(typed.Dir, *file)
		}
	}
	return deployed.Advised(parsed.Run())
}

// Elsewhere returns the URL of a command's stack on this machine, "" for a stack on AWS and for no stack.
func Elsewhere(parsed *kong.Context) string {
	for _, flag := range parsed.Flags() {
		if url, _ := parsed.FlagValue(flag).(string); flag.Name == "stack" && strings.HasPrefix(url, "http://") {
			return url
		}
	}
	return ""
}

// Forward has the stack at a URL on this machine run a command line, and writes its answer to out.
func Forward(ctx context.Context, url string, args []string, out io.Writer) error {
	ended, err := send(ctx, url, args)
	switch {
	case err != nil:
		return err
	case ended.Asks:
		if err := change.Ask(ctx, false, ended.Consequences); err != nil {
			return err
		}
		if ended, err = send(ctx, url, append(args, "--yes")); err != nil {
			return err
		}
	case ended.Consequences != "":
		fmt.Fprintln(os.Stderr, ended.Consequences)
	}
	if _, err := io.WriteString(out, ended.Out); err != nil || ended.Error == "" {
		return err
	}
	return errors.New(ended.Error)
}

func send(ctx context.Context, url string, args []string) (ended response, err error) {
	dir, err := os.Getwd()
	path, unusable := socket(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	if err = cmp.Or(err, unusable); err != nil {
		return ended, err
	}
	body, _ := json.Marshal(request{args, dir}) // of texts
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	asked, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://stack/", bytes.NewReader(body)) // a good URL
	answer, err := c.Do(asked)
	if err != nil {
		return ended, cmp.Or(ctx.Err(),
			fmt.Errorf("no remit local of yours answers at %s; start one, or name another --stack", url))
	}
	defer func() { _ = answer.Body.Close() }()
	return ended, json.NewDecoder(answer.Body).Decode(&ended)
}
