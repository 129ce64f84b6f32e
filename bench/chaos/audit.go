package chaos

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/dynamo"
)

// paymentsTable is what `remit local` calls it.
const paymentsTable = "remit-payments"

// freeAddress returns an address of loopback that nobody listens on. The
// server takes the same after every restart.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// verdict is what an audit finds. Every list must be empty.
type verdict struct {
	mined     [3]int   // payments mined 0, 1, 2 or more times
	twice     []string // paid more than once
	lost      []string // answered 201 and not mined
	foreign   []string // transfers nobody asked for
	renamed   []string // answered with two hashes
	pending   []string // answered 201 and not confirmed
	silent    []string // confirmed and never announced
	forged    []string // announced wrongly
	waiting   []string // left in the tables for a person
	refused   []string // answers that nothing here may cause
	noops     uint64   // nonces filled for payments that went elsewhere
	unpooled  uint64   // transactions in the node's pool that are not mined
	announced int      // events that arrived, repetitions included
}

// chainAudit counts transfers by amount and compares them with the orders.
func (b *bed) chainAudit(ctx context.Context, v *verdict) error {
	found, err := b.scene.Mined(ctx)
	if err != nil {
		return err
	}
	transfers := 0
	v.mined = [3]int{}
	for _, o := range b.clients.book.orders() {
		hashes := found[o.amount()]
		delete(found, o.amount())
		transfers += len(hashes)
		v.mined[min(len(hashes), 2)]++
		if len(hashes) > 1 {
			v.twice = append(v.twice, fmt.Sprintf("%s: %v", o.key(), hashes))
		}
		if hash := o.answer(); hash != "" && len(hashes) == 0 {
			v.lost = append(v.lost, fmt.Sprintf("%s: %s", o.key(), hash))
		}
		if len(o.changed) > 0 {
			v.renamed = append(v.renamed, fmt.Sprintf("%s: %s, then %v", o.key(), o.hash, o.changed))
		}
	}
	for amount, hashes := range found {
		v.foreign = append(v.foreign, fmt.Sprintf("%d: %v", amount, hashes))
	}
	mined, waiting, err := b.scene.Counts(ctx)
	if err != nil {
		return err
	}
	v.noops, v.unpooled = mined-uint64(transfers), waiting
	return nil
}

// apiAudit asks the stack for every answered payment, as a merchant would.
func (b *bed) apiAudit(ctx context.Context, v *verdict) {
	var mu sync.Mutex
	work := make(chan *order)
	var askers sync.WaitGroup
	for range 16 {
		askers.Go(func() {
			for o := range work {
				status := b.statusOf(ctx, o.answer())
				kind, times := b.hooks.eventOf(o.answer())
				mu.Lock()
				v.announced += times
				if status != "confirmed" {
					v.pending = append(v.pending, fmt.Sprintf("%s: %s", o.key(), status))
				} else if kind != "payment.confirmed" {
					v.silent = append(v.silent, fmt.Sprintf("%s: event %q", o.key(), kind))
				}
				mu.Unlock()
			}
		})
	}
	for _, o := range b.clients.book.orders() {
		if o.answer() != "" {
			work <- o
		}
	}
	close(work)
	askers.Wait()
	b.hooks.mu.Lock()
	v.forged = append([]string(nil), b.hooks.bad...)
	b.hooks.mu.Unlock()
	for answer, n := range b.clients.refused {
		v.refused = append(v.refused, fmt.Sprintf("%s, %d times", answer, n))
	}
}

func (b *bed) statusOf(ctx context.Context, hash string) string {
	a, err := b.clients.merchant.Transaction(ctx, hash)
	if err != nil {
		return err.Error()
	}
	return a.Body.Status
}

// tableAudit looks for what somebody would have to finish.
func (b *bed) tableAudit(ctx context.Context) ([]string, error) {
	payments := dynamo.NewPayments(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(b.dynamodb),
		Credentials: credentials.NewStaticCredentialsProvider("audit", "audit", ""),
	}), paymentsTable)
	ids, err := payments.Wallets(ctx, b.chainID)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, id := range ids {
		w, err := payments.Wallet(ctx, id)
		if err != nil {
			return nil, err
		}
		pendingTxs, unreadable, err := payments.PendingTxs(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(pendingTxs)+len(w.Reservations)+unreadable > 0 || w.Paused != "" {
			left = append(left, fmt.Sprintf("wallet %s: %d pending transactions, %d reservations, %d unreadable, paused %q",
				id.Address, len(pendingTxs), len(w.Reservations), unreadable, w.Paused))
		}
	}
	return left, nil
}

// drain waits until the tables hold nothing unfinished, and every event has
// arrived.
func (b *bed) drain(ctx context.Context) (left []string, err error) {
	deadline := time.Now().Add(drainWithin)
	for {
		if left, err = b.tableAudit(ctx); err != nil {
			return nil, fmt.Errorf("reading the tables: %w", err)
		}
		missing := 0
		for _, o := range b.clients.book.orders() {
			if hash := o.answer(); hash != "" {
				if _, times := b.hooks.eventOf(hash); times == 0 {
					missing++
				}
			}
		}
		if len(left) == 0 && missing == 0 || time.Now().After(deadline) {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(blockTime):
		}
	}
}
