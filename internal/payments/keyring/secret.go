package keyring

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrSecret reports a wallet's secret that cannot be used. Errors that match it quote none of it.
var ErrSecret = errors.New("unusable wallet secret")

// Decode reads a wallet's secret:
//
//	{"private_key": "0x…"}
//
// Decode ignores members that it does not know, since a newer release may have
// written them. JSON of another form is ErrSecret.
func Decode(raw []byte) (Key, error) {
	var s struct {
		PrivateKey string `json:"private_key"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		// The cause is dropped: encoding/json quotes the bytes that it cannot read.
		return Key{}, fmt.Errorf(`%w: want {"private_key":"0x…"}`, ErrSecret)
	}
	key, err := ParseKey(s.PrivateKey)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrSecret, err)
	}
	return key, err
}

// Encode returns the wallet's secret that Decode reads. The result is key material:
// it belongs in the secret store and nowhere else.
func Encode(key Key) []byte { return []byte(`{"private_key":"` + key.reveal() + `"}`) }
