package devnet_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// estimate returns the gas of a transfer from wallet 0.
func (p *payer) estimate(to token.Address, units uint64) (uint64, error) {
	contract := common.Address(p.Token().Contract)
	return p.client.EstimateGas(p.t.Context(), ethereum.CallMsg{
		From: common.Address(p.Wallets()[0].Address), To: &contract, Data: chain.TransferData(to, token.Units(units)),
	})
}

func TestTokenRefusesAsUSDCDoes(t *testing.T) {
	const all = 1_000_000_000_000 // a wallet's balance
	for name, row := range map[string]struct {
		refuse func(*payer) error
		units  uint64
		want   string
	}{
		"a blacklisted recipient is paid nothing": {
			func(p *payer) error { return p.Blacklist(friend) }, 5, "Blacklistable: account is blacklisted",
		},
		"a blacklisted wallet pays no account": {
			func(p *payer) error { return p.Blacklist(p.Wallets()[0].Address) }, 5, "Blacklistable: account is blacklisted",
		},
		"a balance pays no more than itself": {func(*payer) error { return nil }, all + 1, "ERC20: transfer amount exceeds balance"},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, devnet.Config{})
			if _, err := p.estimate(friend, all); err != nil {
				t.Errorf("before, of the whole balance: %v", err)
			}
			must.OK(p.t, row.refuse(p))
			if _, err := p.estimate(friend, row.units); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("estimation says %v; want %q", err, row.want)
			}
			tx := p.pay(friend, row.units)
			p.mine()
			if got := p.status(tx); got != "reverted" {
				t.Errorf("a payment sent all the same has %s; want reverted", got)
			}
		})
	}
}

func TestWalletsPayABatchFromTheStart(t *testing.T) {
	p := open(t, devnet.Config{})
	w, contract, entries := p.Wallets()[0].Address, common.Address(disburser.Address()),
		[]disburser.Entry{{To: friend, Amount: token.Units(5)}, {To: stranger, Amount: token.Units(7)}}
	code, err := p.client.CodeAt(t.Context(), contract, nil)
	if nonce, nonceErr := p.NonceOf(t.Context(), w); errors.Join(err, nonceErr) != nil ||
		!bytes.Equal(code, disburser.Code()) || nonce != 0 {
		t.Fatalf("%x %d %v", code, nonce, err)
	}
	tx := p.send(p.sign(0, token.Address(contract), disburser.Calldata(p.Token().Contract, entries, nil)))
	p.mine()
	if got := p.status(tx); got != "succeeded" || p.tokens(friend) != 5 || p.tokens(stranger) != 7 {
		t.Errorf("it has %s, and moved %d and %d", got, p.tokens(friend), p.tokens(stranger))
	}
}

func TestTheOwnersCallsOutliveAReorg(t *testing.T) {
	p := open(t, devnet.Config{})
	must.OK(p.t, p.Blacklist(friend))
	must.OK(p.t, p.Reorg(1))
	if _, err := p.estimate(friend, 5); err != nil {
		t.Errorf("the blacklisting was re-organised away, yet: %v", err)
	}
	must.OK(p.t, p.Blacklist(token.Address{1}))
	if _, err := p.estimate(friend, 5); err == nil {
		t.Error("the owner's next call replaced the pending blacklisting")
	}
}

func TestATransferThatReturnsFalseMovesAndLogsNothing(t *testing.T) {
	p := open(t, devnet.Config{})
	must.OK(p.t, p.Behave(friend, devnet.ReturnFalse))
	if _, err := p.estimate(friend, 5); err != nil {
		t.Errorf("estimation says %v", err)
	}
	tx := p.pay(friend, 5)
	p.mine()
	transfers, err := p.TransferLogs(t.Context())
	if got := p.status(tx); got != "succeeded" || p.tokens(friend) != 0 || len(transfers) != 0 || err != nil {
		t.Errorf("it has %s, moved %d and logged %v, %v; want a success of nothing", got, p.tokens(friend), transfers, err)
	}
}
