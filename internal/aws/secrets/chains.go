package secrets

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// WithChain returns the RPC secret with a chain's nodes in place of those that it had.
func WithChain(value []byte, chainID uint64, urls []string) (string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return "", fmt.Errorf("%w: it is no JSON object", ErrRPC)
	}
	nodes, err := json.Marshal(map[string][]string{"urls": urls})
	if err != nil {
		return "", err
	}
	all[strconv.FormatUint(chainID, 10)] = nodes
	text, err := json.Marshal(all)
	return string(text), err
}
