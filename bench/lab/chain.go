package lab

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"remit/internal/devnet"
)

// Many returns an HTTP client with connections for hundreds of requests at once.
func Many() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 512}}
}

// logSpan is how many blocks one request for logs covers.
const logSpan = 200

// Transfers reads every transfer of the token to Payee from the chain's own
// logs, and returns the hashes of their transactions by amount.
func Transfers(ctx context.Context, chain devnet.Facts) (map[uint64][]common.Hash, error) {
	node, err := ethclient.DialContext(ctx, chain.RPCURL)
	if err != nil {
		return nil, fmt.Errorf("reading the chain: %w", err)
	}
	defer node.Close()
	head, err := node.BlockNumber(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the chain: %w", err)
	}
	found := map[uint64][]common.Hash{}
	for from := uint64(0); from <= head; from += logSpan {
		logs, err := node.FilterLogs(ctx, ethereum.FilterQuery{
			FromBlock: new(big.Int).SetUint64(from), ToBlock: new(big.Int).SetUint64(min(from+logSpan-1, head)),
			Addresses: []common.Address{common.Address(chain.Token.Address)},
			Topics: [][]common.Hash{
				{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil, {common.HexToHash(Payee)},
			},
		})
		if err != nil {
			return nil, fmt.Errorf("reading the chain's logs: %w", err)
		}
		for _, l := range logs {
			amount := new(big.Int).SetBytes(l.Data).Uint64()
			found[amount] = append(found[amount], l.TxHash)
		}
	}
	return found, nil
}

// Counts returns how many transactions of all wallets are mined, and how many
// wait in the node's pool.
func Counts(ctx context.Context, chain devnet.Facts) (mined, waiting uint64, err error) {
	node, err := ethclient.DialContext(ctx, chain.RPCURL)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the chain: %w", err)
	}
	defer node.Close()
	for _, w := range chain.Wallets {
		latest, err := node.NonceAt(ctx, common.Address(w.Address), nil)
		if err != nil {
			return 0, 0, fmt.Errorf("counting the transactions of %s: %w", w.Address, err)
		}
		pending, err := node.PendingNonceAt(ctx, common.Address(w.Address))
		if err != nil {
			return 0, 0, fmt.Errorf("counting the transactions of %s: %w", w.Address, err)
		}
		mined, waiting = mined+latest, waiting+pending-latest
	}
	return mined, waiting, nil
}
