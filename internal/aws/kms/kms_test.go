package kms_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const arn = "arn:aws:kms:us-east-1:000000000000:key/1"

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
		case op == "Encrypt" && in["KeyId"] == arn && meant["remit"] == kms.Purpose:
			blob := fmt.Appendf(nil, "%s %s", meant["endpoint"], in["Plaintext"])
			_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": arn, "CiphertextBlob": blob})
		case op == "Decrypt" && meant["remit"] == kms.Purpose:
			blob, _ := base64.StdEncoding.DecodeString(in["CiphertextBlob"].(string))
			plain, ours := strings.CutPrefix(string(blob), fmt.Sprint(meant["endpoint"], " "))
			if !ours {
				w.WriteHeader(http.StatusBadRequest)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": arn, "Plaintext": plain, "__type": "InvalidCiphertextException"})
		case op == "GetPublicKey" && in["KeyId"] == arn: // e2e has whole ones
			_ = json.NewEncoder(w).Encode(key)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type": "NotFoundException", "message": "no such key"}`))
		}
	}))
	t.Cleanup(s.Close)
	return aws.Config{Region: "us-east-1", BaseEndpoint: &s.URL, Credentials: aws.AnonymousCredentials{}}
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
	if _, _, err := keys.Wallet(t.Context(), "another"); err == nil || errors.Is(err, walletkey.ErrKey) {
		t.Errorf("reading: %v", err)
	}
	if _, _, err := keys.Wallet(t.Context(), arn); !errors.Is(err, walletkey.ErrKey) {
		t.Errorf("another curve: %v", err)
	}
	const ofP256 = "3059301306072a8648ce3d020106082a8648ce3d030107034200046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c" +
		"2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
	for _, text := range []string{"", "30", ofP256, "3056301006072a8648ce3d020106052b8104000a03420004" + "00"} {
		if address, err := walletkey.AddressOf(must.Get(hex.DecodeString(text))(t)); !errors.Is(err, walletkey.ErrKey) {
			t.Errorf("public key %s: %s, %v", text, address, err)
		}
	}
}

// TestSealer: a secret opens for the same name alone, unchanged, and by one call of each process.
func TestSealer(t *testing.T) {
	calls := map[string]int{}
	cfg := account(t, "SYMMETRIC_DEFAULT", calls)
	sealed := must.Get(kms.OpenSealer(cfg, arn).Seal(t.Context(), "we_1", []byte("whsec_1")))(t)
	opening := kms.OpenSealer(cfg, "")
	for range 3 {
		if secret, err := opening.Open(t.Context(), "we_1", sealed); err != nil || string(secret) != "whsec_1" {
			t.Errorf("opened %q, %v", secret, err)
		}
	}
	if want := map[string]int{"Encrypt": 1, "Decrypt": 1}; !maps.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	for name, bytes := range map[string][]byte{"we_2": sealed, "we_1": sealed[1:]} {
		if secret, err := opening.Open(t.Context(), name, bytes); err == nil {
			t.Errorf("%s opened %q", name, secret)
		}
	}
	if _, err := kms.OpenSealer(cfg, "another").Seal(t.Context(), "we_1", nil); err == nil {
		t.Error("sealed with a key that is not there")
	}
}
