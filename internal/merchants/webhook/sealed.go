package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
)

// Sealed is a Store whose endpoints' secrets lie encrypted in another, so that a reader
// of the table forges no message. A secret that the other store holds in clear, from
// before there was a key, is read as it is, and stays so until its merchant rotates it.
//
// A secret is sealed with the id of its endpoint, so that it opens for that one alone. Whoever changes an endpoint
// without its secrets needs neither function, and so no right to the key: the stored text stays as it is.
type Sealed struct {
	Store

	// Seal encrypts the secret of an endpoint that is written; nil leaves it in clear.
	Seal func(ctx context.Context, endpoint string, secret []byte) ([]byte, error)
	// Open returns the secret that Seal was given for the same endpoint; nil leaves a loaded endpoint's secrets sealed.
	Open func(ctx context.Context, endpoint string, sealed []byte) ([]byte, error)
}

// sealedPrefix begins the text of a sealed secret; base64 follows.
const sealedPrefix = "sealed_"

// AddEndpoint implements EndpointStore.
func (s Sealed) AddEndpoint(ctx context.Context, e Endpoint, limit int) error {
	e, err := s.sealed(ctx, e)
	if err == nil {
		err = s.Store.AddEndpoint(ctx, e, limit)
	}
	return err
}

// SaveEndpoint implements EndpointStore. After an error it returns the endpoint with its secrets as stored.
func (s Sealed) SaveEndpoint(ctx context.Context, e Endpoint) (Endpoint, error) {
	hidden, err := s.sealed(ctx, e)
	if err != nil {
		return Endpoint{}, err
	}
	saved, err := s.Store.SaveEndpoint(ctx, hidden)
	if err == nil {
		saved.Secret, saved.PreviousSecret = e.Secret, e.PreviousSecret
	}
	return saved, err
}

// Load implements DeliveryStore. A secret that does not open is an error.
func (s Sealed) Load(ctx context.Context, r Ref) (Endpoint, Delivery, error) {
	e, d, err := s.Store.Load(ctx, r)
	if e.Status == Enabled && (err == nil || errors.Is(err, ErrDeliveryNotFound)) {
		opened, openErr := s.opened(ctx, e)
		if openErr != nil {
			return Endpoint{}, Delivery{}, openErr
		}
		e = opened
	}
	return e, d, err
}

func (s Sealed) sealed(ctx context.Context, e Endpoint) (Endpoint, error) {
	for _, secret := range []*Secret{&e.Secret, &e.PreviousSecret} {
		if s.Seal != nil && secret.sealed == "" && secret.text != "" {
			b, err := s.Seal(ctx, e.ID, []byte(secret.text))
			if err != nil {
				return Endpoint{}, fmt.Errorf("sealing the secret of %s: %w", e.ID, err)
			}
			secret.sealed = sealedPrefix + base64.StdEncoding.EncodeToString(b)
		}
		if secret.sealed != "" {
			secret.text = ""
		}
	}
	return e, nil
}

// opened returns e with secrets that sign, of which the store writes what it holds.
func (s Sealed) opened(ctx context.Context, e Endpoint) (Endpoint, error) {
	for _, secret := range []*Secret{&e.Secret, &e.PreviousSecret} {
		if s.Open == nil || secret.sealed == "" {
			continue
		}
		b, err := unsealed(secret.sealed)
		if err == nil {
			b, err = s.Open(ctx, e.ID, b)
		}
		var clear Secret
		if err == nil {
			clear, err = ParseSecret(string(b))
		}
		if err != nil {
			return Endpoint{}, fmt.Errorf("opening the secret of %s: %w", e.ID, err)
		}
		secret.text = clear.text
	}
	return e, nil
}
