// Package kms has keys in AWS KMS sign, and seal. A key never leaves KMS; package keyring finds a signature's account.
package kms

import (
	"context"
	"fmt"

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
