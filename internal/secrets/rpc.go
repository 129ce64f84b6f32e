package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
)

// ErrRPC reports an RPC secret that cannot be used. Errors that match it quote
// nothing of it: URLs of nodes carry a provider's key.
var ErrRPC = errors.New("unusable RPC secret")

// RPC reads the RPC secret,
//
//	{"urls": ["https://…", …]}
//
// and returns the URLs, of which there is at least one. All are http or https.
func RPC(value []byte) ([]string, error) {
	var secret struct {
		URLs []string `json:"urls"`
	}
	if err := json.Unmarshal(value, &secret); err != nil {
		return nil, fmt.Errorf(`%w: want {"urls":["https://…"]}`, ErrRPC) // the cause quotes the secret
	}
	if len(secret.URLs) == 0 {
		return nil, fmt.Errorf("%w: no urls", ErrRPC)
	}
	for i, text := range secret.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("%w: urls[%d] is not an http or https URL", ErrRPC, i)
		}
	}
	return secret.URLs, nil
}
