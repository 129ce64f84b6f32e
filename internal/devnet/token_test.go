package devnet_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"remit/internal/devnet"
	"remit/internal/token"
)

// estimate estimates the gas of a transfer from wallet 0 and returns its error.
func (p *payer) estimate(to token.Address, units uint64) error {
	contract := common.Address(p.Token().Contract)
	_, err := p.client.EstimateGas(p.t.Context(), ethereum.CallMsg{
		From: common.Address(p.Wallets()[0].Address),
		To:   &contract,
		Data: transferData(to, units),
	})
	return err
}

// must ends the test if a call of the token's owner failed.
func (p *payer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestTokenRefusesAsUSDCDoes(t *testing.T) {
	sender := func(p *payer) token.Address { return p.Wallets()[0].Address }
	for name, row := range map[string]struct {
		refuse, undo func(*payer) error
		want         string
	}{
		"a blacklisted recipient is paid nothing": {
			func(p *payer) error { return p.Blacklist(friend) },
			func(p *payer) error { return p.Unblacklist(friend) },
			"Blacklistable: account is blacklisted",
		},
		"a blacklisted wallet pays nobody": {
			func(p *payer) error { return p.Blacklist(sender(p)) },
			func(p *payer) error { return p.Unblacklist(sender(p)) },
			"Blacklistable: account is blacklisted",
		},
		"a paused token moves for nobody": {
			func(p *payer) error { return p.Pause() },
			func(p *payer) error { return p.Unpause() },
			"Pausable: paused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, devnet.Config{})
			p.must(row.refuse(p))
			if err := p.estimate(friend, 5); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("estimation says %v; want %q", err, row.want)
			}
			tx := p.pay(friend, 5)
			p.mine()
			if got := p.status(tx); got != "reverted" {
				t.Errorf("a payment sent all the same has %s; want reverted", got)
			}
			p.must(row.undo(p))
			tx = p.pay(friend, 5)
			p.mine()
			if got := p.status(tx); got != "succeeded" {
				t.Errorf("after it is undone a payment has %s; want succeeded", got)
			}
		})
	}
}

func TestTokenRefusesMoreThanABalance(t *testing.T) {
	p := open(t, devnet.Config{})
	const want = "ERC20: transfer amount exceeds balance"
	if err := p.estimate(friend, p.tokens(p.Wallets()[0].Address)+1); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("estimation says %v; want %q", err, want)
	}
	p.must(p.FundToken(p.Wallets()[0].Address, token.Units(1)))
	if err := p.estimate(friend, p.tokens(p.Wallets()[0].Address)); err != nil {
		t.Errorf("after funding, all of it: %v", err)
	}
}

func TestTheOwnersCallsOutliveAReorg(t *testing.T) {
	p := open(t, devnet.Config{})
	p.must(p.Blacklist(friend))
	p.must(p.Reorg(1))
	if err := p.estimate(friend, 5); err != nil {
		t.Errorf("the blacklisting was re-organised away, yet: %v", err)
	}
	p.must(p.FundToken(p.Wallets()[0].Address, token.Units(1)))
	if err := p.estimate(friend, 5); err == nil {
		t.Error("the owner's next call replaced the pending blacklisting")
	}
}

func TestBehaviours(t *testing.T) {
	type outcome struct {
		Estimated    bool
		Status       string
		Moved        uint64
		Logged       uint64
		LoggedAtAll  bool
		ReturnedTrue bool
	}
	for behaviour, want := range map[devnet.Behaviour]outcome{
		devnet.Ordinary:        {true, "succeeded", 5, 5, true, true},
		devnet.RevertWhenMined: {true, "reverted", 0, 0, false, true},
		devnet.Revert:          {false, "reverted", 0, 0, false, false},
		devnet.ReturnFalse:     {true, "succeeded", 0, 0, false, false},
		devnet.NoLog:           {true, "succeeded", 5, 0, false, true},
		devnet.NoMove:          {true, "succeeded", 0, 0, false, true},
		devnet.ShortLog:        {true, "succeeded", 4, 4, true, true},
	} {
		p := open(t, devnet.Config{})
		p.must(p.Behave(friend, behaviour))
		got := outcome{Estimated: p.estimate(friend, 5) == nil}
		contract := common.Address(p.Token().Contract)
		answer, err := p.client.CallContract(t.Context(), ethereum.CallMsg{
			From: common.Address(p.Wallets()[0].Address), To: &contract, Data: transferData(friend, 5),
		}, nil)
		got.ReturnedTrue = err == nil && new(big.Int).SetBytes(answer).Uint64() == 1
		tx := p.pay(friend, 5)
		p.mine()
		got.Status, got.Moved = p.status(tx), p.tokens(friend)
		transfers, err := p.TransferLogs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, transfer := range transfers {
			got.Logged, _ = transfer.Amount.Uint64()
			got.LoggedAtAll = transfer.Tx == tx
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("behaviour %d (-want +got):\n%s", behaviour, diff)
		}
	}
}

// authorization is the call data of transferWithAuthorization, EIP-3009, with the
// signature of from.
func authorization(t *testing.T, p *payer, from devnet.Wallet, to token.Address, units uint64, nonce [32]byte) []byte {
	t.Helper()
	contract := p.Token().Contract
	domain := crypto.Keccak256(
		crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		crypto.Keccak256([]byte("USD Coin")),
		crypto.Keccak256([]byte("2")),
		word(new(big.Int).SetUint64(p.ID()).Bytes()),
		word(contract[:]),
	)
	words := [][]byte{
		word(from.Address[:]),
		word(to[:]),
		word(new(big.Int).SetUint64(units).Bytes()),
		word(nil),                               // valid after the epoch
		word(big.NewInt(4_000_000_000).Bytes()), // valid until 2096
		nonce[:],
	}
	kind := []byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)")
	message := crypto.Keccak256(append([][]byte{crypto.Keccak256(kind)}, words...)...)
	signature, err := crypto.Sign(crypto.Keccak256([]byte("\x19\x01"), domain, message), key(t, from))
	if err != nil {
		t.Fatal(err)
	}
	data := crypto.Keccak256([]byte("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"))[:4]
	for _, w := range words {
		data = append(data, w...)
	}
	data = append(data, word([]byte{signature[64] + 27})...)
	return append(data, signature[:64]...)
}

func TestAuthorizedTransferHappensOnce(t *testing.T) {
	p := open(t, devnet.Config{})
	from := p.Wallets()[1]
	data := authorization(t, p, from, friend, 9, [32]byte{1})
	other := authorization(t, p, from, friend, 9, [32]byte{2})
	forged := authorization(t, p, from, friend, 9, [32]byte{3})
	forged[4+2*32+31] = 10 // another amount than was signed

	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"any account may send it", data, "succeeded"},
		{"a second time it is refused", data, "reverted"},
		{"another nonce is another payment", other, "succeeded"},
		{"an amount that was not signed is refused", forged, "reverted"},
	} {
		tx := p.send(p.call(0, row.data))
		p.nonces[0]++
		p.mine()
		if got := p.status(tx); got != row.want {
			t.Errorf("%s: %s; want %s", row.name, got, row.want)
		}
	}
	if got := p.tokens(friend); got != 18 {
		t.Errorf("%d units arrived; want 18", got)
	}
}
