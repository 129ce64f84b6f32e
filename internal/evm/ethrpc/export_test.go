package ethrpc

// MaxResponse is the bound of one response in bytes.
const MaxResponse = maxResponse

// MaxParts and MaxLogs are the bounds of a response's braces and commas, and of a receipt's logs.
const MaxParts, MaxLogs = maxParts, maxLogs

// BatchSize returns the most calls in one request to the node, so far as known.
func (n *Node) BatchSize() int { return int(n.size.Load()) }
