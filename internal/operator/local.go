package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/webhook"
)

// Commands are the commands of an operator.
type Commands struct {
	Wallet    Wallet    `cmd:"" help:"Keys that pay."`
	Keys      Keys      `cmd:"" help:"Merchants' API keys."`
	Merchants Merchants `cmd:"" help:"Merchants: who they are, suspensions, limits."`
	Payment   Payment   `cmd:"" help:"Look into a payment."`
	Batch     Batch     `cmd:"" help:"The contract that pays many in one transaction."`
	Deny      Deny      `cmd:"" help:"Recipients that are not paid."`
	Settings  Settings  `cmd:"" help:"Limits and rules of payments and keys, which take effect within 30 seconds."`
	Webhooks  Webhooks  `cmd:"" help:"Deliveries that failed."`
	Recover   Recover   `cmd:"" help:"Put payments back that the tables have lost, from the chain: after a restore, or with empty tables."`
	Audit     Audit     `cmd:"" help:"Hold the tables against the chain, both ways, and account for the wallets' ether. Fails on any difference."`
	AuditLog  AuditLog  `cmd:"" help:"What operators did, and who: every command that changed anything."`
	Export    Export    `cmd:"" help:"Write payments as lines of JSON, or as CSV."`
	Console   Console   `cmd:"" help:"Serve a page that shows a stack on AWS, on this machine: payments, wallets, nodes, alarms, webhooks. It only reads."`
	Policies  Policies  `cmd:"" help:"Print the IAM policies of a stack's operators, with the names of its own resources."`
	Rollback  Rollback  `cmd:"" help:"Put the functions of the last deployment back to the versions before it; cancel one under way."`
	Doctor    Doctor    `cmd:"" help:"Examine a stack and say what to do about each finding."`
}

// Local is the parts of a stack that this process runs with its data in memory.
type Local struct {
	Payments store.Store
	AuditLog store.AuditLog
	Webhooks webhook.Store
	Keys     keyStore
	Jobs     webhook.Queue
	Keyed    func() []token.Address // the wallets that have a key in this process
	Key      func(token.Address) (keyring.Key, error)
	PutKey   func(keyring.Key)
	Nodes    []string // URLs
	Health   func() []chain.Health
	Hint     func(context.Context) error // starts a run of check-receipts soon
	Config   stack.Config
}

// socket is the file of the socket at which the stack that serves the API at an
// address takes commands. Only the user who runs the stack may use it.
func socket(address string) string {
	address = strings.Replace(address, "localhost", "127.0.0.1", 1)
	return filepath.Join(os.TempDir(), fmt.Sprintf("remit-%d-%s.sock", os.Getuid(), address))
}

// Serve takes operators' commands for the stack that serves the API at an address,
// until the result is closed. Commands run in this process, where the data is.
func Serve(address string, stack Local) (io.Closer, error) {
	path := socket(address)
	_ = os.Remove(path) // of a process that was killed: no other one serves the API there now
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("taking operators' commands: %w", err)
	}
	server := &http.Server{Handler: stack, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	return server, nil
}

// A request is a command line and the directory in which it was typed.
type request struct {
	Args []string
	Dir  string
}

// A response is the end of a command.
type response struct {
	Out          string
	Consequences string // that the command showed, if it changes anything
	Asks         bool   // for consent to them; nothing was done
	Error        string // "" if all went well
}

// conversationKey is the key of a context's conversation.
type conversationKey struct{}

// A conversation is one command for a stack in this process. It is a platform.
type conversation struct {
	*Local
	response
}

// ServeHTTP runs one command.
func (l Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &conversation{Local: &l}
	if err := c.run(r); err != nil {
		c.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(c.response) // fails if the operator has gone
}

func (c *conversation) run(r *http.Request) error {
	var typed request
	if err := json.NewDecoder(r.Body).Decode(&typed); err != nil {
		return err
	}
	var commands Commands
	var out strings.Builder
	defer func() { c.Out = out.String() }()
	ctx := Recorded(context.WithValue(r.Context(), conversationKey{}, c), typed.Args)
	parser, err := kong.New(&commands, kong.NoDefaultHelp(), kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(&out, (*io.Writer)(nil)))
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(typed.Args)
	if err != nil {
		return err
	}
	for _, file := range []*string{&commands.Wallet.Import.File, &commands.Audit.Keep, &commands.Settings.Apply.File} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(typed.Dir, *file)
		}
	}
	return Ended(ctx, parsed.Run())
}

// deployment is the stack as a command sees it. A change that was not consented to
// beforehand is left to another request, after the operator was asked.
func (c *conversation) deployment(t Target, out io.Writer) *deployment {
	return &deployment{Target: t, platform: c, mode: string(apikey.Test), keyCache: "0", chainID: c.Config.ChainID, asset: c.Config.Token,
		rules: c.Config, out: out, agree: func(yes bool, consequences string) error {
			c.Consequences, c.Asks = consequences, !yes
			if !yes {
				return errDeclined
			}
			return nil
		}}
}

func (c *conversation) auditLog() (store.AuditLog, error) { return c.AuditLog, nil }

// who is the user of the operating system: no other one may use the socket.
func (c *conversation) who(context.Context) (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username, nil
}

func (c *conversation) payments() (store.Store, error)   { return c.Payments, nil }
func (c *conversation) webhooks() (webhook.Store, error) { return c.Webhooks, nil }
func (c *conversation) keys() (keyStore, error)          { return c.Keys, nil }
func (c *conversation) jobs() (webhook.Queue, error)     { return c.Jobs, nil }

func (c *conversation) rpc(context.Context) ([]byte, error) {
	return json.Marshal(map[string][]string{"urls": c.Nodes})
}

func (c *conversation) hint(ctx context.Context) error { return c.Hint(ctx) }

func (c *conversation) health(context.Context, chain.Nodes) ([]chain.Health, error) {
	return c.Health(), nil
}

func (c *conversation) keyed(context.Context) (map[token.Address]time.Time, error) {
	keyed := map[token.Address]time.Time{}
	for _, a := range c.Keyed() {
		keyed[a] = time.Time{}
	}
	return keyed, nil
}

func (c *conversation) key(_ context.Context, a token.Address) (keyring.Key, error) { return c.Key(a) }

func (c *conversation) putKey(_ context.Context, key keyring.Key) error {
	c.PutKey(key)
	return nil
}

// Elsewhere returns the URL of the stack on this machine that a command is about,
// "" for a stack on AWS and for a command that is about none.
func Elsewhere(parsed *kong.Context) string {
	for _, flag := range parsed.Flags() {
		if stack, ok := parsed.FlagValue(flag).(string); ok && flag.Name == "stack" && strings.HasPrefix(stack, "http://") {
			return stack
		}
	}
	return ""
}

// Forward has the stack at a URL on this machine run a command line, and writes
// its answer to out.
func Forward(ctx context.Context, url string, args []string, out io.Writer) error {
	ended, err := send(ctx, url, args)
	switch {
	case err != nil:
		return err
	case ended.Asks:
		if err := agree(false, ended.Consequences); err != nil {
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
	if err != nil {
		return ended, err
	}
	body, err := json.Marshal(request{args, dir})
	if err != nil {
		return ended, err
	}
	path := socket(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	over := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://stack/", bytes.NewReader(body))
	if err != nil {
		return ended, err
	}
	answer, err := over.Do(asked)
	if err != nil {
		return ended, fmt.Errorf("looking for a stack of remit local at %s: %w", url, err)
	}
	defer func() { _ = answer.Body.Close() }()
	return ended, json.NewDecoder(answer.Body).Decode(&ended)
}
