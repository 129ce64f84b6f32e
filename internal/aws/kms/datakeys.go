package kms

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// Purpose is in the encryption context of every data key, as the value of "remit". The functions whose policy
// excludes that context name cannot open sealed secrets, though they may use the same key for their tables.
const Purpose = "webhook-secrets"

// heldKeys bounds how many data keys of others a process keeps.
const heldKeys = 1000

// DataKeys encrypt small secrets with data keys under a KMS key. A process gets one data key from KMS with its first
// secret, and seals all of its secrets with it. Each sealed text carries its data key, which only KMS can unwrap: a
// reader calls KMS once per data key. KMS's own rotation of the key changes neither.
type DataKeys struct {
	client *kms.Client
	key    string

	mu      sync.Mutex
	own     cipher.AEAD
	wrapped []byte                 // the own data key, as KMS encrypted it
	held    map[string]cipher.AEAD // of others, by the same
}

// OpenDataKeys returns data keys under the key arn, which may be empty if nothing is sealed. It makes no request.
func OpenDataKeys(cfg aws.Config, arn string) *DataKeys {
	return &DataKeys{client: kms.NewFromConfig(cfg), key: arn, held: map[string]cipher.AEAD{}}
}

// Seal encrypts secret with AES-256-GCM. It opens only with the same name. The result is a version, the length of the
// wrapped data key in two bytes, that key, a nonce and the ciphertext. After an error it may be repeated.
func (k *DataKeys) Seal(ctx context.Context, name string, secret []byte) ([]byte, error) {
	k.mu.Lock() // until KMS has answered: the first secrets share one data key
	defer k.mu.Unlock()
	if k.own == nil {
		out, err := k.client.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &k.key, KeySpec: types.DataKeySpecAes256,
			EncryptionContext: purpose()})
		if err != nil {
			return nil, fmt.Errorf("making a data key of %s: %w", k.key, err)
		}
		if k.own, err = aead(out.Plaintext); err != nil {
			return nil, err
		}
		k.wrapped = out.CiphertextBlob
	}
	nonce := make([]byte, k.own.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed := append(binary.BigEndian.AppendUint16([]byte{version}, uint16(len(k.wrapped))), k.wrapped...)
	return k.own.Seal(append(sealed, nonce...), nonce, secret, []byte(name)), nil
}

// Open returns the secret that was sealed with that name.
func (k *DataKeys) Open(ctx context.Context, name string, sealed []byte) ([]byte, error) {
	if len(sealed) < 3 || sealed[0] != version || len(sealed) < 3+int(binary.BigEndian.Uint16(sealed[1:])) {
		return nil, errSealed
	}
	end := 3 + int(binary.BigEndian.Uint16(sealed[1:]))
	key, err := k.unwrap(ctx, sealed[3:end])
	if err != nil {
		return nil, err
	}
	if sealed = sealed[end:]; len(sealed) < key.NonceSize() {
		return nil, errSealed
	}
	secret, err := key.Open(nil, sealed[:key.NonceSize()], sealed[key.NonceSize():], []byte(name))
	if err != nil {
		return nil, fmt.Errorf("%w, or sealed for another name than %s", errSealed, name)
	}
	return secret, nil
}

// unwrap returns a data key, which KMS decrypts if the process has not met it.
func (k *DataKeys) unwrap(ctx context.Context, wrapped []byte) (cipher.AEAD, error) {
	k.mu.Lock()
	held := k.held[string(wrapped)]
	k.mu.Unlock()
	if held != nil {
		return held, nil
	}
	out, err := k.client.Decrypt(ctx, &kms.DecryptInput{CiphertextBlob: wrapped, EncryptionContext: purpose()})
	if err != nil {
		return nil, fmt.Errorf("decrypting a data key: %w", err)
	}
	key, err := aead(out.Plaintext)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) >= heldKeys {
		clear(k.held)
	}
	k.held[string(wrapped)] = key
	return key, nil
}

// version is the first byte of a sealed secret.
const version = 1

var errSealed = errors.New("not what Seal returned")

func purpose() map[string]string { return map[string]string{"remit": Purpose} }

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("using a data key: %w", err)
	}
	return cipher.NewGCM(block)
}
