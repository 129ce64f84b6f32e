package ethrpc

// MaxResponse is the bound of one response in bytes.
const MaxResponse = maxResponse

// BatchSize returns the most calls in one request to the node, so far as known.
func (n *Node) BatchSize() int { return int(n.size.Load()) }
