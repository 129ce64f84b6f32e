package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of the Standard Webhooks specification, version 1.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Sign returns the value of HeaderSignature for a message sent at the given
// time: one "v1," entry per secret, in their order, with a space between.
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

// header returns the header of ev sent to e at the given time.
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
