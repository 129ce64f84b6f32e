package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

const payee = "0x2222222222222222222222222222222222222222"

// TestTwoRails: one key pays both assets, each on its own chain. A payment that stays pending, which keeps a run of its
// own rail busy for 50 s, holds up no other rail.
func TestTwoRails(t *testing.T) {
	api, _ := localtest.Stack(t, "--rail=usdc", "--rail=eurc")
	facts := factsOf(t, api)
	if len(facts.Assets) != 2 || facts.Assets[0].ChainID != facts.ChainID || facts.Assets[0].Token != facts.Token ||
		facts.Assets[1].ChainID == facts.ChainID || facts.Assets[1].Token.Symbol != "EURC" ||
		facts.Assets[1].Wallets[0].Address == facts.Wallets[0].Address || facts.Assets[1].RPCURL == facts.RPCURL {
		t.Errorf("GET /sandbox shows %+v", facts)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	must.Get(api.Call(ctx, "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":5}`, devnet.StuckRecipient)))(t)
	for _, a := range facts.Assets {
		made := must.Get(api.Attempt(ctx, "", remit.SendPaymentRequest{To: payee, Amount: "5", Asset: a.Asset}))(t)
		p := must.Get(api.Wait(ctx, made.TxHash))(t)
		if p.Status != remit.PaymentStatusConfirmed || p.Asset != a.Asset || p.Token != a.Token.Symbol {
			t.Errorf("%s: %+v is now %+v", a.Asset, made, p)
		}
		has := must.Get(api.Call(t.Context(), "GET", "/balance/"+payee+"?asset="+a.Asset, ""))(t)
		if !strings.Contains(string(has.Body), `"balance":5,`) {
			t.Errorf("%s: the recipient has %s", a.Asset, has.Body)
		}
	}
}

// TestRailsOfKeptTables: the first rail is the default for ever, and no rail of the tables is left out.
func TestRailsOfKeptTables(t *testing.T) {
	dynamotest.Clear(t)
	dynamodb := "--dynamodb=" + dynamotest.Start(t)
	for _, flags := range [][]string{{"--rail=eurc,usdc", "--fresh"}, {"--rail=usdc,eurc"}} {
		t.Run(flags[0], func(t *testing.T) {
			api, _ := localtest.Stack(t, append(flags, dynamodb)...)
			if facts := factsOf(t, api); facts.Token.Symbol != "EURC" || facts.Assets[1].Token.Symbol != "USDC" {
				t.Errorf("the assets are %+v", facts.Assets)
			}
		})
	}
	err := start(t, time.Minute, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0", "--rail=usdc", dynamodb)
	if err == nil || !strings.Contains(err.Error(), "start it as well") {
		t.Errorf("without the tables' first rail: %v", err)
	}
}

func factsOf(t *testing.T, api *remit.Client) (facts devnet.Facts) {
	t.Helper()
	answer := must.Get(api.Call(t.Context(), "GET", "/sandbox", ""))(t)
	must.OK(t, json.Unmarshal(answer.Body, &facts))
	return facts
}

type hinted func(context.Context) error

func (h hinted) Hint(ctx context.Context) error { return h(ctx) }

// TestOwnWalletsUnderLoad gives a merchant two of a stack's four wallets, which can pay 66 of its 100 payments. Another
// merchant makes 100 as well, half of them by a second process with an old registry. No coin of one pays the other.
func TestOwnWalletsUnderLoad(t *testing.T) {
	var stack deployed.Local
	out, _ := localtest.Start(t, &local.Command{Operate: func(_ string, l deployed.Local) (io.Closer, error) {
		stack = l
		return io.NopCloser(nil), nil
	}}, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0", "--block-time=250ms", "--wallets=4")
	common := localtest.Merchant(t, out)
	made := must.Get(common.CreateMerchant(t.Context(), remit.CreateAPIKeyRequest{MerchantName: "Own"}))(t)
	own := &remit.Client{Once: true, URL: common.URL, HTTP: common.HTTP, Key: made.APIKey}
	old, id := stack.Config, stack.Config.ChainID
	old.RegistryAge = time.Hour
	node := must.Get(ethrpc.Open(stack.Nodes[id][0], ethrpc.Config{ChainID: id}))(t)
	second := dispatch.New(old, dispatch.Parts{Store: stack.Payments, Keys: keyring.New(stack.Key),
		Nodes: chain.Nodes{node}, Hints: hinted(stack.Hint), Log: slog.New(slog.DiscardHandler), Now: time.Now, Draw: rand.IntN})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := func(do func() error) (err error) {
		for err = do(); err != nil && ctx.Err() == nil; err = do() {
			time.Sleep(50 * time.Millisecond)
		}
		return err
	}
	var refused [256]byte
	pay := func(i int) error { // the payments with even numbers are the owner's, whose wallets hold 10^12 each
		to, amount := token.Address{0: 0x77, 19: byte(i)}, []uint64{30_000_000_000, 1000}[i%2]+uint64(i)
		return until(func() error {
			if i%4 == 3 {
				return must.Err(second.Send(ctx, payment.Request{Merchant: "mer_common", Mode: "test",
					IdempotencyKey: fmt.Sprint(i), To: to, Amount: token.Units(amount)}))
			}
			_, err := []*remit.Client{own, common}[i%2].Attempt(ctx, fmt.Sprint(i),
				remit.SendPaymentRequest{To: to.String(), Amount: json.Number(fmt.Sprint(amount))})
			if no, is := errors.AsType[*remit.Refused](err); is && no.Code == "insufficient_funds" {
				refused[i], err = 1, nil
			}
			return err
		})
	}
	must.OK(t, pay(255)) // the second process reads the registry
	stack.Config.RegistryAge = time.Nanosecond
	var wallets []token.Address
	for _, w := range factsOf(t, common).Wallets {
		if wallets = append(wallets, w.Address); len(wallets) <= 2 {
			of, to := w.Address.String(), "--merchant="+made.MerchantID
			must.Get(operatortest.Local(ctx, &stack, "wallet", "drain", of, "--yes"))(t)
			must.OK(t, until(func() error { // the payment has ended
				return must.Err(operatortest.Local(ctx, &stack, "wallet", "assign", of, "--yes", to))
			}))
		}
	}
	var clients errgroup.Group
	clients.SetLimit(16)
	for i := range 200 {
		clients.Go(func() error { return pay(i) })
	}
	must.OK(t, clients.Wait())
	if n := strings.Count(string(refused[:]), "\x01"); n != 34 {
		t.Errorf("%d payments are refused as insufficient_funds, not 34", n)
	}
	times := map[token.Address]int{}
	must.OK(t, until(func() error {
		head := must.Get(node.Head(ctx, chain.ConfirmationRule{Depth: 1}))(t)
		clear(times)
		for _, l := range must.Get(node.Transfers(ctx, old.Token.Contract, wallets, 0, head.Number))(t) {
			n, owned := l.To[19], l.From == wallets[0] || l.From == wallets[1]
			if times[l.To]++; times[l.To]+int(refused[n]) > 1 || n < 200 && owned != (n%2 == 0) {
				t.Fatalf("payment %d, refused %d and paid %d times, left wallet %s", n, refused[n], times[l.To], l.From)
			}
		}
		return map[bool]error{true: fmt.Errorf("%d of 167 payments are mined", len(times))}[len(times) < 167]
	}))
}
