package ethrpc

import "github.com/remit-payouts/remit/internal/evm/chain"

// Reply lets tests build tables of their own.
type Reply = reply

// Replies returns a copy of the table.
func Replies() []Reply { return append([]Reply(nil), replies...) }

// ClassOf returns the class of words by a table.
func ClassOf(words string, table []Reply) chain.Class { return classOf(words, table) }

// MaxResponse is the bound of one response in bytes.
const MaxResponse = maxResponse
