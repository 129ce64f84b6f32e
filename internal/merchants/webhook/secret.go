package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// secretPrefix is the Standard Webhooks specification's, which asks for 24 to 64 random bytes behind it.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// A Secret signs the messages to one endpoint. It prints and logs as its prefix; only Reveal and Stored return its
// text. The zero Secret is none. One that a store holds sealed signs nothing before Sealed has opened it.
type Secret struct {
	text   string // empty while it is sealed only
	sealed string // sealedPrefix and base64, empty if it is stored in clear
}

// MintSecret makes a secret from random, which must be cryptographic and never fail: then MintSecret panics.
func MintSecret(random io.Reader) Secret {
	return Secret{text: secretPrefix + base64.StdEncoding.EncodeToString(drawn(random, secretBytes))}
}

// ParseSecret reads "whsec_" and the padded base64 of a key. The error does not repeat the text.
func ParseSecret(text string) (Secret, error) {
	if _, err := (Secret{text: text}).key(); err != nil {
		return Secret{}, err
	}
	return Secret{text: text}, nil
}

// ParseStored reads the text that Stored returned: a plain or a sealed secret.
func ParseStored(text string) (Secret, error) {
	if !strings.HasPrefix(text, sealedPrefix) {
		return ParseSecret(text)
	}
	_, err := unsealed(text)
	return Secret{sealed: text}, err
}

// Stored returns the text that a store keeps: sealed, if the secret is.
func (s Secret) Stored() string { return cmp.Or(s.sealed, s.text) }

func unsealed(text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, sealedPrefix))
	if err != nil || len(b) == 0 {
		return nil, fmt.Errorf("not a sealed webhook secret: want %s and padded base64", sealedPrefix)
	}
	return b, nil
}

// Reveal returns the text that the merchant is shown once, "" of a sealed secret.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether s is no secret.
func (s Secret) IsZero() bool { return s.text == "" && s.sealed == "" }

func (s Secret) String() string { return secretPrefix + "…" }

// GoString returns a placeholder.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps a log line, or an endpoint encoded by mistake, from showing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Secret) key() ([]byte, error) {
	if s.text == "" && s.sealed != "" {
		return nil, errors.New("the webhook secret is sealed: give the process the key in KMS")
	}
	encoded, ok := strings.CutPrefix(s.text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) == 0 || base64.StdEncoding.EncodeToString(key) != encoded {
		return nil, fmt.Errorf("not a webhook secret: want %s and padded base64", secretPrefix)
	}
	return key, nil
}

// Headers of the Standard Webhooks specification, version 1.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Sign returns the HeaderSignature of a message sent then: one "v1," entry per secret, with a space between.
func Sign(secrets []Secret, id string, at time.Time, body []byte) (string, error) {
	entries := make([]string, len(secrets))
	for i, s := range secrets {
		key, err := s.key()
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
		mac.Write(body)
		entries[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(entries, " "), nil
}

func header(e Endpoint, ev Event, at time.Time) (http.Header, error) {
	signature, err := Sign(e.Secrets(at), ev.ID, at, ev.Body)
	if err != nil {
		return nil, fmt.Errorf("signing %s for %s: %w", ev.ID, e.ID, err)
	}
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Remit-Webhooks/1")
	h.Set(HeaderID, ev.ID)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, signature)
	return h, nil
}
