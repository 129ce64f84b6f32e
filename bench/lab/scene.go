package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"

	ethereum "github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
)

// A Scene says where a chain is and what is on it, as `remit chain` and
// GET /sandbox tell.
type Scene struct {
	RPC     string `json:"rpc_url"`
	ChainID uint64 `json:"chain_id"`
	Token   struct {
		Address string `json:"address"`
	} `json:"token"`
	Wallets []struct {
		Address string `json:"address"`
	} `json:"wallets"`
}

// StartChain starts `remit chain` on a free port. What it prints, keys and
// all, is also written to file, which `remit local --wallet-file` takes.
func StartChain(ctx context.Context, stderr io.Writer, remit, file string, args ...string) (*Process, Scene, error) {
	p, lines, err := Launch(ctx, stderr, "}", remit, append([]string{"chain", "--chain-listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, Scene{}, err
	}
	text := strings.Join(lines, "\n")
	var s Scene
	err = json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		p.Kill()
		return nil, Scene{}, fmt.Errorf("reading what remit chain printed: %w", err)
	}
	return p, s, nil
}

// span is how many blocks one request for logs is about.
const span = 200

// Mined counts the Transfer logs to Payee by amount, from the chain's blocks
// themselves, and returns which transactions they are from.
func (s Scene) Mined(ctx context.Context) (map[uint64][]common.Hash, error) {
	node, err := ethclient.DialContext(ctx, s.RPC)
	if err != nil {
		return nil, fmt.Errorf("reading the chain: %w", err)
	}
	defer node.Close()
	head, err := node.BlockNumber(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the chain: %w", err)
	}
	found := map[uint64][]common.Hash{}
	for from := uint64(0); from <= head; from += span {
		logs, err := node.FilterLogs(ctx, ethereum.FilterQuery{
			FromBlock: new(big.Int).SetUint64(from), ToBlock: new(big.Int).SetUint64(min(from+span-1, head)),
			Addresses: []common.Address{common.HexToAddress(s.Token.Address)},
			Topics: [][]common.Hash{
				{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil,
				{common.BytesToHash(common.HexToAddress(Payee).Bytes())},
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
// the node's pool holds beyond them.
func (s Scene) Counts(ctx context.Context) (mined, waiting uint64, err error) {
	node, err := ethclient.DialContext(ctx, s.RPC)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the chain: %w", err)
	}
	defer node.Close()
	for _, w := range s.Wallets {
		latest, err := node.NonceAt(ctx, common.HexToAddress(w.Address), nil)
		if err != nil {
			return 0, 0, fmt.Errorf("counting the transactions of %s: %w", w.Address, err)
		}
		pending, err := node.PendingNonceAt(ctx, common.HexToAddress(w.Address))
		if err != nil {
			return 0, 0, fmt.Errorf("counting the transactions of %s: %w", w.Address, err)
		}
		mined, waiting = mined+latest, waiting+pending-latest
	}
	return mined, waiting, nil
}

// SceneOf asks a running stack where its chain is.
func SceneOf(ctx context.Context, m *Merchant) (Scene, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/sandbox", nil)
	if err != nil {
		return Scene{}, err
	}
	response, err := m.Client.Do(r)
	if err != nil {
		return Scene{}, fmt.Errorf("asking for the sandbox: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var s Scene
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		return Scene{}, fmt.Errorf("reading the sandbox: %w", err)
	}
	return s, nil
}
