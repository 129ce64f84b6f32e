package wallet

import "context"

// Predecessors returns the stored bytes of every nonce of the wallet below
// slot's, in nonce order: what a node that reports a gap may be missing.
func Predecessors(ctx context.Context, slots Slots, slot Slot) ([][]byte, error) {
	stored, _, err := slots.Slots(ctx, slot.ID)
	if err != nil {
		return nil, err
	}
	var raws [][]byte
	for _, s := range stored {
		if s.Nonce < slot.Nonce {
			raws = append(raws, s.Raw)
		}
	}
	return raws, nil
}
