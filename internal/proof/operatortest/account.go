package operatortest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/operator"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// An Account is a Cloud with DynamoDB, and an operator of it.
type Account struct {
	*testing.T
	*Cloud
	Printed string // answers and errors of all commands
}

// NewAccount returns an account that the environment of the test names.
func NewAccount(t *testing.T) *Account {
	t.Helper()
	dynamotest.Clear(t)
	tables := schema.Tables{APIKeys: outputs["ApiKeysTableName"], Payments: outputs["PaymentsTableName"],
		Webhooks: outputs["WebhooksTableName"]}
	must.OK(t, schema.Create(t.Context(), dynamotest.Client(t), tables))
	a := &Account{T: t, Cloud: &Cloud{Secrets: map[string]string{}, Made: time.Now(), Parameters: map[string]string{}}}
	server := httptest.NewServer(a.Cloud)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "remit", "AWS_SECRET_ACCESS_KEY": "remit",
		"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_DYNAMODB": dynamotest.Start(t),
	} {
		t.Setenv(name, value)
	}
	return a
}

// Remit runs an operator's command line and returns its standard output.
func (a *Account) Remit(line string) (string, error) {
	a.Helper()
	var commands operator.Commands
	args := strings.Fields(line)
	ctx := change.Recorded(a.Context(), args, change.Ask)
	var out strings.Builder
	in, to := kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(io.Writer(&out), (*io.Writer)(nil))
	parser := must.Get(kong.New(&commands, in, to))(a)
	parsed, err := parser.Parse(args)
	if err == nil {
		err = deployed.Advised(parsed.Run())
	}
	a.Printed += fmt.Sprintln(out.String(), err)
	return out.String(), err
}

// Steps runs commands in turn. Each has a reason, a line, and a text of its answer, or after ! of its error.
func (a *Account) Steps(all [][3]string) {
	a.Helper()
	for _, step := range all {
		out, err := a.Remit(step[1])
		got := out
		want, refused := strings.CutPrefix(step[2], "!")
		if refused {
			got = fmt.Sprint(err)
		}
		if (err != nil) != refused || !strings.Contains(got, want) {
			a.Errorf("%s: remit %s: error %v, answer %q, want %q", step[0], step[1], err, out, step[2])
		}
	}
}

// Play is Steps for the commands in testdata/NAME.txt, where NAME is the test's (package tabletest).
func (a *Account) Play(words map[string]string) {
	a.Helper()
	tabletest.Run(a.T, words, func(t *testing.T, c tabletest.Case) {
		one := &Account{T: t, Cloud: a.Cloud}
		one.Steps([][3]string{{c.Name, c.In[0], c.Want}})
		a.Printed += one.Printed
	})
}

// Rail is the rail of an Account.
func Rail() settings.Rail {
	own, _ := chains.Of(84532)
	first, err := own.First(nil)
	if err != nil {
		panic(err)
	}
	return first.Rail
}

// railOf is the rail of a stack that has a configuration, with Rail's values where that has none.
func railOf(config stack.Config) settings.Rail {
	r := Rail()
	r.ChainID, r.Network = cmp.Or(config.ChainID, r.ChainID), cmp.Or(config.Network, r.Network)
	r.Token.Contract, r.Token.Symbol = cmp.Or(config.Token.Contract, r.Token.Contract), cmp.Or(config.Token.Symbol, r.Token.Symbol)
	r.Token.Decimals = cmp.Or(config.Token.Decimals, r.Token.Decimals)
	return r
}

// Empty returns a stack in this process without wallets.
func Empty(t *testing.T, config stack.Config, nodes ...string) *deployed.Local {
	t.Helper()
	tables, stored := memory.NewPayments(), settings.Default(railOf(config))
	config.ChainID, config.Token = stored.ChainID, stored.Token
	stored.BatchContract = install.Address()
	must.OK(t, tables.SetSettings(t.Context(), stored))
	return &deployed.Local{Nodes: map[uint64][]string{config.ChainID: nodes}, Config: config,
		Tables: deployed.Tables{Payments: tables, AuditLog: tables, Keys: new(memory.APIKeys)},
		Keyed:  func() map[token.Address]token.Coin { return nil }}
}

// Local runs a command line for a stack in this process, and returns its output, and its error with any question.
func Local(ctx context.Context, stack *deployed.Local, args ...string) (string, error) {
	typed, err := json.Marshal(map[string]any{"Args": args})
	if err != nil {
		return "", err
	}
	answer := httptest.NewRecorder()
	operator.Handler(stack)(answer, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(typed)).WithContext(ctx))
	var ended struct{ Out, Error, Consequences string }
	if err := json.Unmarshal(answer.Body.Bytes(), &ended); err != nil {
		return "", err
	}
	if ended.Error != "" {
		return ended.Out, errors.New(ended.Error + ended.Consequences)
	}
	return ended.Out, nil
}
