package kms_test

import (
	"bytes"
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const arn = "arn:aws:kms:us-east-1:000000000000:key/1"

var private = secp256k1.PrivKeyFromBytes([]byte{0x46})

// service is a fake KMS with one key of this spec. It refuses the requests that KMS refuses.
func service(t *testing.T, spec string) (kms.Keys, walletkey.Keys) {
	cfg := account(t, spec, map[string]int{})
	return kms.Open(cfg), walletkey.Open(cfg)
}

// account is an account with the service, which counts the calls of each operation.
func account(t *testing.T, spec string, calls map[string]int) aws.Config {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var in map[string]any
		if err := json.NewDecoder(q.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		key := map[string]any{"KeyId": arn, "Arn": arn, "KeySpec": spec, "KeyUsage": "SIGN_VERIFY"}
		op := strings.TrimPrefix(q.Header.Get("X-Amz-Target"), "TrentService.")
		calls[op]++
		meant, _ := in["EncryptionContext"].(map[string]any)
		switch {
		case op == "GenerateDataKey" && in["KeyId"] == arn && in["KeySpec"] == "AES_256" && meant["remit"] == kms.Purpose:
			plain := bytes.Repeat([]byte{byte(calls[op])}, 32)
			_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": arn, "Plaintext": plain, "CiphertextBlob": append([]byte("wrapped "), plain...)})
		case op == "Decrypt" && meant["remit"] == kms.Purpose:
			blob, _ := base64.StdEncoding.DecodeString(in["CiphertextBlob"].(string))
			_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": arn, "Plaintext": bytes.TrimPrefix(blob, []byte("wrapped "))})
		case op == "CreateKey" && in["KeySpec"] == spec && in["KeyUsage"] == "SIGN_VERIFY":
			tag := in["Tags"].([]any)[0].(map[string]any)
			if !maps.Equal(tag, map[string]any{"TagKey": walletkey.Tag, "TagValue": "remit-prod"}) {
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
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &s.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}
}

// TestAKeyIsMadeAndSigns: from the making of a key to a transaction of its account.
func TestAKeyIsMadeAndSigns(t *testing.T) {
	signs, keys := service(t, "ECC_SECG_P256K1")
	made := must.Get(keys.Create(t.Context(), "remit-prod"))(t)
	name, public, err := keys.Public(t.Context(), made)
	if err != nil || name != arn {
		t.Fatal(name, err)
	}
	address := must.Get(walletkey.AddressOf(public))(t)
	signer := keyring.NewRemote(address, time.Now,
		func(ctx context.Context, digest []byte) ([]byte, error) { return signs.Sign(ctx, arn, digest) })
	must.OK(t, signer.Ready(t.Context()))
	must.Get(signer.Sign(t.Context(), chain.Noop(1, address, chain.Fees{Cap: token.Units(1)}), 0))(t)
}

// TestRefusals: a key that is not there, and one of another curve.
func TestRefusals(t *testing.T) {
	signs, keys := service(t, "ECC_NIST_P256")
	if _, err := signs.Sign(t.Context(), "another", make([]byte, 32)); err == nil || !strings.Contains(err.Error(), "signing with another: ") {
		t.Errorf("signing: %v", err)
	}
	if _, err := keys.Create(t.Context(), "remit-prod"); err == nil {
		t.Error("a key was made")
	}
	if _, _, err := keys.Public(t.Context(), "another"); err == nil || errors.Is(err, walletkey.ErrKey) {
		t.Errorf("reading: %v", err)
	}
	if _, _, err := keys.Public(t.Context(), arn); !errors.Is(err, walletkey.ErrKey) {
		t.Errorf("another curve: %v", err)
	}
	const ofP256 = "3059301306072a8648ce3d020106082a8648ce3d030107034200046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c" +
		"2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
	for _, text := range []string{"", "30", ofP256, "3056301006072a8648ce3d020106052b8104000a03420004" + "00"} {
		der := must.Get(hex.DecodeString(text))(t)
		if address, err := walletkey.AddressOf(der); !errors.Is(err, walletkey.ErrKey) {
			t.Errorf("public key %s: %s, %v", text, address, err)
		}
	}
}

// TestDataKeys: a process asks for one data key to seal, and once for each data key that it opens;
// a sealed secret opens for the same name alone, and unchanged.
func TestDataKeys(t *testing.T) {
	calls := map[string]int{}
	cfg := account(t, "SYMMETRIC_DEFAULT", calls)
	var sealed [][]byte
	for range 2 { // processes
		sealing := kms.OpenDataKeys(cfg, arn)
		for range 3 {
			s, err := sealing.Seal(t.Context(), "we_1", []byte("whsec_1"))
			if err != nil || bytes.Contains(s, []byte("whsec_1")) ||
				slices.ContainsFunc(sealed, func(before []byte) bool { return bytes.Equal(before, s) }) {
				t.Fatalf("sealed %x, %v", s, err)
			}
			sealed = append(sealed, s)
		}
	}
	opening := kms.OpenDataKeys(cfg, "")
	for _, s := range sealed {
		if secret, err := opening.Open(t.Context(), "we_1", s); err != nil || string(secret) != "whsec_1" {
			t.Errorf("opened %q, %v", secret, err)
		}
	}
	if want := map[string]int{"GenerateDataKey": 2, "Decrypt": 2}; !maps.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	if secret, err := opening.Open(t.Context(), "we_2", sealed[0]); err == nil {
		t.Errorf("opened %q for another endpoint", secret)
	}
	for i := range sealed[0] {
		changed := bytes.Clone(sealed[0])
		changed[i] ^= 1
		if secret, err := opening.Open(t.Context(), "we_1", changed); err == nil {
			t.Errorf("with byte %d changed it opens as %q", i, secret)
		}
		if _, err := opening.Open(t.Context(), "we_1", sealed[0][:i]); err == nil {
			t.Errorf("its first %d bytes open", i)
		}
	}
	if _, err := kms.OpenDataKeys(cfg, "another").Seal(t.Context(), "we_1", nil); err == nil {
		t.Error("sealed with a key that is not there")
	}
}
