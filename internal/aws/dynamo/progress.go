package dynamo

import (
	"bytes"
	varint "encoding/binary"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// sees begins claimed_by of a run that keeps a wallet's progress. The claim of a run of an earlier
// version has none, and hides the progress, which that run does not keep.
const sees = "+"

// attrProgress is the attribute of a wallet's progress, which every write replaces.
const attrProgress = "progress"

// progressItem is a wallet.Progress. mined is the first nonce, the hash, and for each block its
// distance from the one before and its count of nonces, as binary.AppendUvarint writes numbers.
type progressItem struct {
	Mined []byte  `dynamodbav:"mined,omitempty"`
	Sent  uint64  `dynamodbav:"sent,omitempty"`
	Head  uint64  `dynamodbav:"head,omitempty"`
	Depth *uint64 `dynamodbav:"depth,omitempty"`
	Waits string  `dynamodbav:"waits,omitempty"`
}

// store adds to a SET what a round has seen, unless that is nil.
func (c *change) store(seen *wallet.Progress) {
	if seen == nil {
		return
	}
	it := progressItem{Sent: seen.Sent, Head: seen.Head, Depth: seen.Depth, Waits: string(seen.Waits)}
	if m := seen.Mined; len(m.Runs) > 0 {
		it.Mined = append(varint.AppendUvarint(nil, m.First), m.Hash[:]...)
		before := uint64(0)
		for _, r := range m.Runs {
			it.Mined = varint.AppendUvarint(varint.AppendUvarint(it.Mined, r.Block-before), r.Count)
			before = r.Block
		}
	}
	if fields := encode(it); len(fields) > 0 {
		c.do, c.values[":progress"] = c.do+", "+attrProgress+" = :progress", &types.AttributeValueMemberM{Value: fields}
	} else {
		c.do += " REMOVE " + attrProgress
	}
}

// progressOf returns the progress in the item of a wallet: none if it cannot be read, which
// damages nothing.
func progressOf(item attributes) (p wallet.Progress) {
	var it progressItem
	if err := attributevalue.Unmarshal(item[attrProgress], &it); err != nil {
		return wallet.Progress{}
	}
	p = wallet.Progress{Sent: it.Sent, Head: it.Head, Depth: it.Depth, Waits: payment.Stage(it.Waits)}
	if len(it.Mined) == 0 {
		return p
	}
	from, failed := bytes.NewReader(it.Mined), false
	next := func() uint64 {
		n, err := varint.ReadUvarint(from)
		failed = failed || err != nil
		return n
	}
	m := wallet.Mined{First: next()}
	n, _ := from.Read(m.Hash[:])
	failed = failed || n < len(m.Hash)
	for block := uint64(0); from.Len() > 0 && !failed; {
		block += next()
		m.Runs = append(m.Runs, wallet.Run{Block: block, Count: next()})
	}
	if !failed && len(m.Runs) <= wallet.MaxBlocks { // or no round could store it again
		p.Mined = m
	}
	return p
}
