package kms_test

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/kms"
	"remit/internal/token"
)

const arn = "arn:aws:kms:us-east-1:000000000000:key/1"

var private = secp256k1.PrivKeyFromBytes([]byte{0x46})

// service answers as KMS does, with one key, and refuses what KMS would refuse. spec is
// the key's.
func service(t *testing.T, spec string) kms.Keys {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var in map[string]any
		if err := json.NewDecoder(q.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		key := map[string]any{"KeyId": arn, "Arn": arn, "KeySpec": spec, "KeyUsage": "SIGN_VERIFY"}
		switch op := strings.TrimPrefix(q.Header.Get("X-Amz-Target"), "TrentService."); {
		case op == "CreateKey" && in["KeySpec"] == spec && in["KeyUsage"] == "SIGN_VERIFY":
			tag := in["Tags"].([]any)[0].(map[string]any)
			if !maps.Equal(tag, map[string]any{"TagKey": kms.Tag, "TagValue": "remit-prod"}) {
				t.Errorf("made with the tag %v", tag)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"KeyMetadata": key})
		case op == "GetPublicKey" && in["KeyId"] == arn:
			curve, _ := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 132, 0, 10})
			key["PublicKey"], _ = asn1.Marshal(struct {
				Algorithm pkix.AlgorithmIdentifier
				Key       asn1.BitString
			}{
				pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, Parameters: asn1.RawValue{FullBytes: curve}},
				asn1.BitString{Bytes: private.PubKey().SerializeUncompressed(), BitLength: 65 * 8},
			})
			_ = json.NewEncoder(w).Encode(key)
		case op == "Sign" && in["KeyId"] == arn && in["MessageType"] == "DIGEST" && in["SigningAlgorithm"] == "ECDSA_SHA_256":
			digest, _ := base64.StdEncoding.DecodeString(in["Message"].(string))
			_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": arn, "Signature": ecdsa.Sign(private, digest).Serialize()})
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type": "NotFoundException", "message": "no such key"}`))
		}
	}))
	t.Cleanup(s.Close)
	return kms.Open(aws.Config{
		Region: "us-east-1", BaseEndpoint: &s.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

// TestAKeyIsMadeAndSigns: from the making of a key to a transaction of its account.
func TestAKeyIsMadeAndSigns(t *testing.T) {
	keys := service(t, "ECC_SECG_P256K1")
	made, err := keys.Create(t.Context(), "remit-prod")
	if err != nil {
		t.Fatal(err)
	}
	name, public, err := keys.Public(t.Context(), made)
	if err != nil || name != arn {
		t.Fatal(name, err)
	}
	address, err := keyring.AddressOf(public)
	if err != nil {
		t.Fatal(err)
	}
	signer := keyring.NewRemote(address, time.Now, func(ctx context.Context, digest []byte) ([]byte, error) { return keys.Sign(ctx, arn, digest) })
	if err := signer.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := signer.Sign(t.Context(), chain.Noop(1, address, chain.Fees{Cap: token.Units(1)}), 0); err != nil {
		t.Error(err)
	}
}

// TestRefusals: a key that is not there, and one of another curve.
func TestRefusals(t *testing.T) {
	keys := service(t, "ECC_NIST_P256")
	if _, err := keys.Sign(t.Context(), "another", make([]byte, 32)); err == nil || !strings.Contains(err.Error(), "signing with another: ") {
		t.Errorf("signing: %v", err)
	}
	if _, err := keys.Create(t.Context(), "remit-prod"); err == nil {
		t.Error("a key was made")
	}
	if _, _, err := keys.Public(t.Context(), "another"); err == nil || errors.Is(err, kms.ErrKey) {
		t.Errorf("reading: %v", err)
	}
	if _, _, err := keys.Public(t.Context(), arn); !errors.Is(err, kms.ErrKey) {
		t.Errorf("another curve: %v", err)
	}
}
