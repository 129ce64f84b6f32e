package ethrpc

import "remit/internal/chain"

// Reply lets tests build tables of their own.
type Reply = reply

// Words returns the words of r.
func (r Reply) Words() string { return r.words }

// Class returns the class of r.
func (r Reply) Class() chain.Class { return r.class }

// Replies returns a copy of the table.
func Replies() []Reply { return append([]Reply(nil), replies...) }

// ClassOf returns the class of words by a table.
func ClassOf(words string, table []Reply) chain.Class { return classOf(words, table) }

// MaxResponse is the bound of one response in bytes.
const MaxResponse = maxResponse
