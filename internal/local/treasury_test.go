package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/client"
	"remit/internal/devnet"
	"remit/internal/keyring"
	"remit/internal/local"
	"remit/internal/local/localtest"
	"remit/internal/token"
)

// TestPaysWithATreasury pays by an allowance, on a real EVM: the coins are the
// treasury's, what is beyond the allowance is refused, and /balance says what an address
// has, not what it may spend.
func TestPaysWithATreasury(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	on, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 100 * time.Millisecond, Wallets: 2, Now: time.Now})
	must(err)
	t.Cleanup(func() { _ = on.Close() })
	spender, treasury := on.Wallets()[0], on.Wallets()[1]
	owner, err := keyring.ParseKey(treasury.PrivateKey())
	must(err)
	approve := chain.TransferData(spender.Address, token.Units(1_000))
	copy(approve, []byte{0x09, 0x5e, 0xa7, 0xb3}) // approve(address,uint256) has the arguments of transfer
	signed, err := owner.Sign(t.Context(), chain.Tx{
		ChainID: on.ID(), To: on.Token().Contract, Data: approve, Gas: 100_000, Fees: chain.Fees{Tip: token.Units(1_000_000_000), Cap: token.Units(20_000_000_000)},
	}, 0)
	must(err)
	must(on.MineExactly(signed.Raw))
	keys := filepath.Join(t.TempDir(), "keys")
	must(os.WriteFile(keys, []byte(spender.PrivateKey()), 0o600))
	out, _ := localtest.Start(t, &local.Command{}, "--listen=127.0.0.1:0", "--rpc="+on.URL(), "--token="+on.Token().Contract.String(),
		"--wallet-file="+keys, "--block-time=100ms", "--confirmation-rule=1", "--treasury-allowance="+treasury.Address.String())
	api := &client.Client{URL: strings.Fields(out.Await(t, "API"))[1]}
	out.Await(t, "Ctrl-C")
	api.Key, err = api.CreateKey(t.Context(), "Acme")
	must(err)
	balances := func() (text string) {
		for _, a := range []token.Address{spender.Address, treasury.Address} {
			b, err := api.Balance(t.Context(), a.String())
			must(err)
			text += " " + b.String()
		}
		return text
	}
	var each uint64
	_, err = fmt.Sscan(balances(), new(uint64), &each)
	must(err)
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
