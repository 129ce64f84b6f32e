package payment

import (
	"fmt"
	"strings"
)

// A Stage is how far a pending payment has come.
type Stage string

// The stages. Only StageMined has a block.
const (
	StageCommitted  Stage = "committed"         // no node is known to have it
	StageSent       Stage = "sent"              // a node has it
	StageMined      Stage = "mined"             // every node that answered has it in a block
	WaitingForFees  Stage = "waiting_for_fees"  // the market asks more than the stack may pay
	WaitingForFunds Stage = "waiting_for_funds" // its wallet lacks gas
)

// A Progress is how far a pending payment has come, as merchants see it. A re-organisation may
// take StageMined back.
type Progress struct {
	Stage Stage   `json:"stage"`
	Block *uint64 `json:"block_number"` // nil unless StageMined
	Left  *uint64 `json:"blocks_left"`  // that the confirmation rule still wants; nil unless StageMined, and where the rule is a tag
}

// String returns p in words: "mined in block 7, 3 blocks left".
func (p Progress) String() string {
	words := strings.ReplaceAll(string(p.Stage), "_", " ")
	if p.Block != nil {
		words += fmt.Sprint(" in block ", *p.Block)
	}
	if p.Left != nil {
		words += fmt.Sprintf(", %d blocks left", *p.Left)
	}
	return words
}
