package secrets

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// ByChain reads the RPC secret, which has the nodes of each chain by its number,
//
//	{"8453": {"urls": ["https://…", …]}, "137": {"urls": ["https://…"]}}
//
// and may have "urls" beside them: those of the first rail's chain, here 0. Each is as RPC returns it.
func ByChain(value []byte) (map[uint64][]string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, fmt.Errorf(`%w: want {"8453":{"urls":["https://…"]}}`, ErrRPC) // the cause quotes the secret
	}
	nodes := map[uint64][]string{}
	for name, text := range all {
		id, err := strconv.ParseUint(name, 10, 64)
		if name == "urls" {
			text, err = value, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: a name in it is neither a chain's number nor urls", ErrRPC)
		}
		if nodes[id], err = RPC(text); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

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
