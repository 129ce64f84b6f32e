package dynamo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Webhooks is the webhook.Store in the table Webhooks. Only Due reads an index; other reads are strongly consistent.
type Webhooks struct{ table }

// NewWebhooks returns the webhooks kept in the table of that name.
func NewWebhooks(db *dynamodb.Client, name string) *Webhooks { return &Webhooks{table{db, name}} }

// AddEndpoint implements webhook.EndpointStore with one transaction. It puts the
// endpoint and adds one to its owner's count, which must be below limit.
func (s *Webhooks) AddEndpoint(ctx context.Context, e webhook.Endpoint, limit int) error {
	return s.transact(ctx, "putting "+e.ID,
		write{create(encodeEndpoint(e, endpointKey(e.Owner, e.ID)), e.Fits()), nil}, // ids are random: the same endpoint is there
		write{change{
			key: countKey(e.Owner), do: "ADD endpoints :one",
			when:   "attribute_not_exists(endpoints) OR endpoints < :limit",
			values: args{":one": 1, ":limit": max(limit, 0)},
		}, is(webhook.ErrLimit)})
}

func (s *Webhooks) Endpoints(ctx context.Context, o webhook.Owner) ([]webhook.Endpoint, error) {
	prefix := endpointPrefix + o.Mode + "#"
	list, err := all(s.partition(ctx, "querying the webhooks of "+o.Merchant, o.Merchant, prefix, prefix+"~"), decodeEndpoint)
	slices.SortFunc(list, webhook.NewestFirst)
	return list, err
}

func (s *Webhooks) Endpoint(ctx context.Context, o webhook.Owner, id string) (webhook.Endpoint, error) {
	e, err := get(ctx, s.table, endpointKey(o, id), "a webhook", webhook.ErrNotFound, decodeEndpoint)
	if errors.Is(err, webhook.ErrNotFound) {
		return get(ctx, s.table, goneKey(o, id), "a webhook", webhook.ErrNotFound, decodeEndpoint)
	}
	return e, err
}

// SaveEndpoint implements webhook.EndpointStore. When the SDK repeats the write after a lost answer, it finds its own
// result stored and returns that. An equal one of another caller is a conflict.
func (s *Webhooks) SaveEndpoint(ctx context.Context, e webhook.Endpoint) (webhook.Endpoint, error) {
	if err := e.Fits(); err != nil {
		return webhook.Endpoint{}, err
	}
	if e.Status == webhook.Deleted {
		return s.removeEndpoint(ctx, e)
	}
	next := e
	next.Version++
	sent := 0
	_, err := s.apply(ctx, updateEndpoint(next, e.Version), counting(&sent))
	if item, ok := refused(err); ok {
		if item == nil {
			return webhook.Endpoint{}, webhook.ErrNotFound
		}
		stored, err := decodeEndpoint(item)
		if err == nil && (sent == 1 || !reflect.DeepEqual(stored, next)) {
			err = fmt.Errorf("version %d is stored: %w", stored.Version, webhook.ErrConflict)
		}
		return stored, err
	}
	return next, outcome(err, nil, "updating "+e.ID)
}

// removeEndpoint moves e to its goneKey and subtracts one from its owner's count.
func (s *Webhooks) removeEndpoint(ctx context.Context, e webhook.Endpoint) (webhook.Endpoint, error) {
	gone := e
	gone.Version++
	return gone, s.transact(ctx, "removing "+e.ID,
		write{change{key: endpointKey(e.Owner, e.ID), gone: true, still: args{"version": e.Version}},
			unless(webhook.ErrNotFound, webhook.ErrConflict)},
		write{change{item: encodeEndpoint(gone, goneKey(e.Owner, e.ID))}, nil},
		write{change{key: countKey(e.Owner), do: "ADD endpoints :less", values: args{":less": -1}}, nil})
}
