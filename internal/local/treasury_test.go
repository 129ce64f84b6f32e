package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/client"
	"remit/internal/devnet"
	"remit/internal/keyring"
	"remit/internal/token"
)

// TestPaysWithATreasury pays by an allowance, on a real EVM: the coins are the
// treasury's, what is beyond the allowance is refused, and /balance says what an address
// has, not what it may spend.
func TestPaysWithATreasury(t *testing.T) {
	on, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 100 * time.Millisecond, Wallets: 2, Now: time.Now})
	check(t, err)
	t.Cleanup(func() { _ = on.Close() })
	spender, treasury := on.Wallets()[0], on.Wallets()[1]
	owner, err := keyring.ParseKey(treasury.PrivateKey())
	check(t, err)
	approve := chain.TransferData(spender.Address, token.Units(1_000))
	copy(approve, []byte{0x09, 0x5e, 0xa7, 0xb3}) // approve(address,uint256) has the arguments of transfer
	signed, err := owner.Sign(t.Context(), chain.Tx{
		ChainID: on.ID(), To: on.Token().Contract, Data: approve, Gas: 100_000, Fees: chain.Fees{Tip: token.Units(1_000_000_000), Cap: token.Units(20_000_000_000)},
	}, 0)
	check(t, err)
	check(t, on.MineExactly(signed.Raw))
	api := over(t, on, spender, "--treasury-allowance="+treasury.Address.String())
	balances := func() (text string) {
		for _, a := range []token.Address{spender.Address, treasury.Address} {
			b, err := api.Balance(t.Context(), a.String())
			check(t, err)
			text += " " + b.String()
		}
		return text
	}
	var each uint64
	_, err = fmt.Sscan(balances(), new(uint64), &each)
	check(t, err)
	pay := func(amount uint64) (client.Answer, error) {
		return api.Call(t.Context(), "POST", "/send-payment", fmt.Sprintf(`{"to":"0x2222222222222222222222222222222222222222","amount":%d}`, amount))
	}
	want := fmt.Sprintf(" %d %d", each, each-700)
	if paid, err := pay(700); err != nil || paid.Status != 201 {
		t.Fatalf("%d %s %v", paid.Status, paid.Body, err)
	}
	for end := time.Now().Add(time.Minute); balances() != want; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("balances are%s, want%s", balances(), want)
		}
	}
	if beyond, err := pay(301); err != nil || beyond.Status != 400 || !strings.Contains(string(beyond.Body), "insufficient_funds") {
		t.Errorf("beyond the allowance: %d %s %v", beyond.Status, beyond.Body, err)
	}
}
