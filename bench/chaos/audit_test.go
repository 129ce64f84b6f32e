package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/bench/lab"
	"remit/internal/dynamo"
)

// The promises that an audit holds, by the names that results give them.
const (
	twice    = "payments mined more than once"
	lost     = "payments answered 201 and not mined"
	foreign  = "transfers that no client asked for"
	renamed  = "payments answered with two hashes"
	pending  = "payments answered 201 and not confirmed"
	silent   = "confirmed payments never announced"
	forged   = "events announced in two forms"
	waiting  = "wallets with something left for a person"
	refused  = "answers that refuse what must not be refused"
	unmined  = "payments not mined once all were asked for again"
	unpooled = "transactions left in the node's pool"
)

var promises = []string{twice, lost, foreign, renamed, pending, silent, forged, waiting, refused, unmined, unpooled}

// An audit holds the chain, the tables and the webhooks against the answers that
// clients got.
type audit struct {
	broken map[string][]string // by promise
	mined  [3]int              // payments mined 0, 1, 2 or more times
	noops  int                 // nonces filled for payments that went elsewhere
}

func (a *audit) breaks(promise, format string, args ...any) {
	a.broken[promise] = append(a.broken[promise], fmt.Sprintf(format, args...))
}

// chain counts transfers by amount and compares them with the orders. Once
// clients have asked again for everything, every order must be mined.
func (a *audit) chain(ctx context.Context, s *stack, askedAgain bool) error {
	found, err := lab.Transfers(ctx, s.chain)
	if err != nil {
		return err
	}
	transfers := 0
	for _, o := range s.clients.orders() {
		hashes := found[o.amount()]
		delete(found, o.amount())
		transfers += len(hashes)
		a.mined[min(len(hashes), 2)]++
		switch {
		case len(hashes) > 1:
			a.breaks(twice, "%s: %v", o.key(), hashes)
		case len(hashes) == 0 && o.hash != "":
			a.breaks(lost, "%s: %s", o.key(), o.hash)
		case len(hashes) == 0 && askedAgain:
			a.breaks(unmined, "%s", o.key())
		}
		if len(o.changed) > 0 {
			a.breaks(renamed, "%s: %s, then %v", o.key(), o.hash, o.changed)
		}
	}
	for amount, hashes := range found {
		a.breaks(foreign, "%d: %v", amount, hashes)
	}
	mined, pooled, err := lab.Counts(ctx, s.chain)
	if a.noops = int(mined) - transfers; pooled > 0 && askedAgain {
		a.breaks(unpooled, "%d", pooled)
	}
	return err
}

// api asks the stack for every answered payment, as a merchant would, and holds
// the webhooks against it. It returns how many webhooks arrived.
func (a *audit) api(ctx context.Context, s *stack) (arrived int) {
	var mu sync.Mutex
	all := s.clients.orders()
	_ = lab.Each(ctx, 16, len(all), func(ctx context.Context, i int) error {
		if all[i].hash == "" {
			return nil
		}
		p, err := s.clients.merchant.Transaction(ctx, all[i].hash)
		event := s.hooks.Of(all[i].hash)
		mu.Lock()
		defer mu.Unlock()
		if arrived += event.Times; err != nil || p.Status != "confirmed" {
			a.breaks(pending, "%s: %s %v", all[i].key(), p.Status, err)
		} else if event.Type != "payment.confirmed" {
			a.breaks(silent, "%s: event %q", all[i].key(), event.Type)
		}
		return nil
	})
	_, a.broken[forged] = s.hooks.Events()
	for answer, n := range s.clients.refused {
		a.breaks(refused, "%s, %d times", answer, n)
	}
	return arrived
}

// unfinished returns the wallets in the tables that have something left to do.
func (s *stack) unfinished(ctx context.Context) (left []string, err error) {
	payments := dynamo.NewPayments(dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(s.dynamodb),
		Credentials: credentials.NewStaticCredentialsProvider("audit", "audit", "")}), "remit-payments")
	ids, err := payments.Wallets(ctx, s.chain.ChainID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		w, err := payments.Wallet(ctx, id)
		if err != nil {
			return nil, err
		}
		txs, unreadable, err := payments.PendingTxs(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(txs)+len(w.Reservations)+unreadable > 0 || w.Paused != "" {
			left = append(left, fmt.Sprintf("wallet %s: %d pending transactions, %d reservations, %d unreadable, paused %q",
				id.Address, len(txs), len(w.Reservations), unreadable, w.Paused))
		}
	}
	return left, nil
}

// drain waits until the tables hold nothing unfinished and every event has
// arrived. The wallets that are unfinished after drainWithin break a promise.
func (a *audit) drain(ctx context.Context, s *stack) error {
	for deadline := time.Now().Add(drainWithin); ctx.Err() == nil; lab.Sleep(ctx, blockTime) {
		left, err := s.unfinished(ctx)
		if err != nil {
			return fmt.Errorf("reading the tables: %w", err)
		}
		unannounced := slices.ContainsFunc(s.clients.orders(), func(o order) bool { return o.hash != "" && s.hooks.Of(o.hash).Times == 0 })
		if late := time.Now().After(deadline); late || len(left) == 0 && !unannounced {
			a.broken[waiting] = left
			return nil
		}
	}
	return ctx.Err()
}

// recoveries returns for each kill the seconds from the next process serving to
// the first 201 of any payment, and to the 201 of every payment that was under
// way at the kill.
func (s *stack) recoveries() (toFirst, toAll []float64) {
	for _, k := range s.server.kills {
		first, last := time.Duration(-1), time.Duration(0)
		for _, o := range s.clients.orders() {
			after := o.answered.Sub(k.ready)
			if o.hash != "" && o.underWay(k.at) {
				last = max(last, after)
			}
			if o.hash != "" && after >= 0 && (first < 0 || after < first) {
				first = after
			}
		}
		toFirst, toAll = append(toFirst, max(first, 0).Seconds()), append(toAll, last.Seconds())
	}
	return toFirst, toAll
}
