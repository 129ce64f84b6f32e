package operatortest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// A Node answers JSON-RPC with the result or error that it has for a method,
// or for a method and its last block, or the selector or length of its call data: half an object of JSON.
type Node map[string]string

// Block is a block whose hash has one digit.
func Block(digit string) string {
	return `"result":{"number":"0x3de","hash":"0x` + strings.Repeat(digit, 64) + `"}`
}

// Word is a word of the virtual machine.
func Word(n int) string { return fmt.Sprintf(`"result":"0x%064x"`, n) }

// WellNode is a node of Base at block 1000, with block 700 final.
func WellNode(faults Node) Node {
	n := Node{
		"eth_chainId": `"result":"0x2105"`, "eth_blockNumber": `"result":"0x3e8"`, "eth_getTransactionCount": `"result":"0x0"`,
		"eth_getBalance":                 `"result":"0x0"`,
		"eth_getBlockByNumber finalized": `"result":{"number":"0x2bc"}`, "eth_getBlockByNumber 0x3de": Block("1"),
		"eth_call 0xf1c7a58b": Word(7), "eth_call 0x275aedd2": Word(0),
		"eth_getBlockByNumber 0x0": `"result":{"number":"0x0","hash":"0x` + strings.Repeat("1", 64) + `"}`,
		"eth_feeHistory":           `"result":{"baseFeePerGas":["0x1","0x5f5e100"],"reward":[["0x1"]]}`,
		"eth_maxPriorityFeePerGas": `"result":"0x1"`,
		"eth_call 0x70a08231":      Word(5), "eth_call 0x313ce567": Word(6),
		"eth_call 0x95d89b41": `"result":"0x` + fmt.Sprintf("%064x%064x%-064s", 32, 4, "55534443") + `"`,
	}
	n["eth_call 0x95d89b41"] = strings.ReplaceAll(n["eth_call 0x95d89b41"], " ", "0")
	maps.Copy(n, faults)
	return n
}

// ServeHTTP implements http.Handler.
func (n Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type ask struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	answer := func(a ask) string {
		result, ok := n[a.Method]
		for _, p := range a.Params {
			var call struct{ Input, Data string }
			_ = json.Unmarshal(p, &call)
			key := strings.Trim(string(p), `"`)
			data := call.Input + call.Data
			if len(data) >= 10 {
				key = data[:10]
			}
			for _, key := range []string{key, fmt.Sprint("of ", len(data))} {
				if exact, found := n[a.Method+" "+key]; found {
					result, ok = exact, true
				}
			}
		}
		if !ok {
			result = `"error":{"code":-32601,"message":"no such method"}`
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, a.ID, result)
	}
	var raw json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&raw)
	w.Header().Set("Content-Type", "application/json")
	var one ask
	if json.Unmarshal(raw, &one) == nil {
		_, _ = fmt.Fprint(w, answer(one))
		return
	}
	var many []ask
	_ = json.Unmarshal(raw, &many)
	var answers []string
	for _, a := range many {
		answers = append(answers, answer(a))
	}
	_, _ = fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
}
