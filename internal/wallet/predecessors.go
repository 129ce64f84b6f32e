package wallet

import "context"

// Predecessors returns the stored bytes of every nonce of the wallet below
// pending transaction's, in nonce order: what a node that reports a gap may be missing.
func Predecessors(ctx context.Context, pendingTxs PendingTxs, pendingTx PendingTx) ([][]byte, error) {
	stored, _, err := pendingTxs.PendingTxs(ctx, pendingTx.ID)
	if err != nil {
		return nil, err
	}
	var raws [][]byte
	for _, s := range stored {
		if s.Nonce < pendingTx.Nonce {
			raws = append(raws, s.Raw)
		}
	}
	return raws, nil
}
