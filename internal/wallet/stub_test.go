package wallet_test

import (
	"remit/internal/chain"
)

// named is a node of which only the name is asked.
type named struct {
	chain.Node
	name string
}

func (n named) String() string { return n.name }
