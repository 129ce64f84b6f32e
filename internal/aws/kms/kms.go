// Package kms has keys in AWS KMS sign, and seal. A key never leaves KMS; package keyring finds a signature's account.
package kms

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// Keys are the keys of an account and region.
type Keys struct{ client *kms.Client }

// Open returns the keys; KMS is not asked for anything yet.
func Open(cfg aws.Config) Keys { return Keys{kms.NewFromConfig(cfg)} }

// Sign returns the key arn's ECDSA signature of a digest of 32 bytes, in DER. It has no effect, and may be repeated.
func (k Keys) Sign(ctx context.Context, arn string, digest []byte) ([]byte, error) {
	out, err := k.client.Sign(ctx, &kms.SignInput{
		KeyId: &arn, Message: digest, MessageType: types.MessageTypeDigest, SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return nil, fmt.Errorf("signing with %s: %w", arn, err)
	}
	return out.Signature, nil
}

// Purpose is in the encryption context of every sealed secret, as the value of "remit". The functions whose policy
// excludes that context name cannot open sealed secrets, though they may use the same key for their tables.
const Purpose = "webhook-secrets"

// heldSecrets bounds how many opened secrets a process keeps, of some 300 bytes each.
const heldSecrets = 10_000

// A Sealer has a KMS key encrypt small secrets. It keeps opened secrets, so that KMS is called once for each secret
// in a process. KMS's own rotation of the key changes no secret.
type Sealer struct {
	client *kms.Client
	key    string

	mu   sync.Mutex
	held map[string][]byte // by name and sealed form
}

// OpenSealer returns the sealer of the key arn, which may be empty if nothing is sealed. It makes no request.
func OpenSealer(cfg aws.Config, arn string) *Sealer {
	return &Sealer{client: kms.NewFromConfig(cfg), key: arn, held: map[string][]byte{}}
}

// Seal encrypts a secret of at most 4 KB. It opens only with the same name. After an error it may be repeated.
func (s *Sealer) Seal(ctx context.Context, name string, secret []byte) ([]byte, error) {
	out, err := s.client.Encrypt(ctx, &kms.EncryptInput{KeyId: &s.key, Plaintext: secret, EncryptionContext: meant(name)})
	if err != nil {
		return nil, fmt.Errorf("encrypting with %s: %w", s.key, err)
	}
	return out.CiphertextBlob, nil
}

// Open returns the secret that was sealed with that name.
func (s *Sealer) Open(ctx context.Context, name string, sealed []byte) ([]byte, error) {
	id := name + " " + string(sealed)
	s.mu.Lock()
	held := s.held[id]
	s.mu.Unlock()
	if held != nil {
		return held, nil
	}
	out, err := s.client.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: sealed, EncryptionContext: meant(name)})
	if err != nil {
		return nil, fmt.Errorf("decrypting for %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) >= heldSecrets {
		clear(s.held)
	}
	s.held[id] = out.Plaintext
	return out.Plaintext, nil
}

func meant(name string) map[string]string {
	return map[string]string{"remit": Purpose, "endpoint": name}
}
