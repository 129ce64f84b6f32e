package ethrpc

// MaxResponse is the bound of one response in bytes.
const MaxResponse = maxResponse
