package keyring

import (
	"encoding/json"
	"errors"
	"fmt"

	"remit/internal/token"
)

// ErrSecret reports a wallet secret that cannot be used. Errors that match it
// name a wallet by its position at most, and quote none of the secret.
var ErrSecret = errors.New("unusable wallet secret")

// An Entry is one wallet of the wallet secret.
type Entry struct {
	Key      Key
	Draining bool // no new payment may use the wallet, but those under way are finished
}

// secret is the wallet secret's JSON.
type secret struct {
	Wallets []secretEntry `json:"wallets"`
}

type secretEntry struct {
	PrivateKey string `json:"private_key"`
	Draining   bool   `json:"draining"`
}

// Decode reads the wallet secret:
//
//	{"wallets": [{"private_key": "0x…", "draining": false}, …]}
//
// Decode ignores members that it does not know, since a newer release may have
// written them. No wallet at all, the same key twice, and JSON of another form are
// ErrSecret.
func Decode(raw []byte) ([]Entry, error) {
	var s secret
	if err := json.Unmarshal(raw, &s); err != nil {
		// The cause is dropped: encoding/json quotes the bytes that it cannot read.
		return nil, fmt.Errorf("%w: not the JSON it should be", ErrSecret)
	}
	if len(s.Wallets) == 0 {
		return nil, fmt.Errorf("%w: no wallets", ErrSecret)
	}
	entries := make([]Entry, len(s.Wallets))
	first := make(map[token.Address]int, len(s.Wallets))
	for i, w := range s.Wallets {
		key, err := ParseKey(w.PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("%w: wallets[%d]: %w", ErrSecret, i, err)
		}
		if j, ok := first[key.Address()]; ok {
			return nil, fmt.Errorf("%w: wallets[%d] is the same key as wallets[%d]", ErrSecret, i, j)
		}
		first[key.Address()] = i
		entries[i] = Entry{Key: key, Draining: w.Draining}
	}
	return entries, nil
}

// Encode returns the wallet secret that Decode reads. The result is key
// material: it belongs in the secret store and nowhere else.
func Encode(entries []Entry) []byte {
	s := secret{Wallets: make([]secretEntry, len(entries))}
	for i, e := range entries {
		s.Wallets[i] = secretEntry{PrivateKey: e.Key.reveal(), Draining: e.Draining}
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic("keyring: encoding strings and booleans: " + err.Error())
	}
	return raw
}
