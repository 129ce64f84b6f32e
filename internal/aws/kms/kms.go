// Package kms makes keys in AWS KMS and has them sign. A key never leaves KMS; whose
// account a signature is of, package keyring finds out.
package kms

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// Tag is the tag of a stack's keys; its value is the stack's name. The functions that
// sign may use the keys with their stack's tag, and no others.
const Tag = "remit-stack"

// Keys are the keys of an account and region.
type Keys struct{ client *kms.Client }

// Open returns the keys; KMS is not asked for anything yet.
func Open(cfg aws.Config) Keys { return Keys{kms.NewFromConfig(cfg)} }

// Sign returns the DER form of an ECDSA signature of a digest of 32 bytes by the key
// arn. It has no effect: after any error it may be repeated.
func (k Keys) Sign(ctx context.Context, arn string, digest []byte) ([]byte, error) {
	out, err := k.client.Sign(ctx, &kms.SignInput{
		KeyId: &arn, Message: digest, MessageType: types.MessageTypeDigest, SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return nil, fmt.Errorf("signing with %s: %w", arn, err)
	}
	return out.Signature, nil
}

// Create makes a key of the curve secp256k1 for a stack. After an error a key without
// any use may be there.
func (k Keys) Create(ctx context.Context, stack string) (arn string, err error) {
	out, err := k.client.CreateKey(ctx, &kms.CreateKeyInput{
		KeySpec: types.KeySpecEccSecgP256k1, KeyUsage: types.KeyUsageTypeSignVerify,
		Description: aws.String("A wallet of " + stack), Tags: []types.Tag{{TagKey: aws.String(Tag), TagValue: &stack}},
	})
	if err != nil {
		return "", fmt.Errorf("making a key in KMS: %w", err)
	}
	return *out.KeyMetadata.Arn, nil
}

// ErrKey reports a key that signs no transactions.
var ErrKey = errors.New("not a key for signing on the curve secp256k1")

// Public returns the ARN and the public key, a SubjectPublicKeyInfo in DER, of a key
// named by its id, ARN or alias. One that is not for signing on secp256k1 is ErrKey.
func (k Keys) Public(ctx context.Context, name string) (arn string, der []byte, err error) {
	out, err := k.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &name})
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("reading the public key of %s: %w", name, err)
	case out.KeySpec != types.KeySpecEccSecgP256k1 || out.KeyUsage != types.KeyUsageTypeSignVerify:
		return "", nil, fmt.Errorf("%s: %w: make one with KeySpec %s and KeyUsage %s", name, ErrKey, types.KeySpecEccSecgP256k1,
			types.KeyUsageTypeSignVerify)
	}
	return *out.KeyId, out.PublicKey, nil
}
