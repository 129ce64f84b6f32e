package e2e_test

import (
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// propose proposes a payment of an amount under a key, and returns the proposal's path.
func (m merchant) propose(key string, amount int, more map[string]any) string {
	m.t.Helper()
	order := map[string]any{"to": recipient, "amount": amount}
	maps.Copy(order, more)
	return "/proposals/" + m.call("POST", "/proposals", order, "Idempotency-Key", key).want(m.t, 201).get("id")
}

// is returns the proposal, which must have a status.
func (m merchant) is(path, status string) answer {
	m.t.Helper()
	a := m.call("GET", path, nil).want(m.t, 200)
	if a.get("status") != status {
		m.t.Errorf("%s, want %s", a.text, status)
	}
	return a
}

// refused wants a status and a code in the answer to a request under a key.
func (m merchant) refused(method, path string, amount int, key string, status int, code string) answer {
	m.t.Helper()
	var order any
	if amount > 0 {
		order = map[string]any{"to": recipient, "amount": amount}
	}
	a := m.call(method, path, order, "Idempotency-Key", key).want(m.t, status)
	if !strings.Contains(a.text, code) {
		m.t.Errorf("%s %s: %s, want %s", method, path, a.text, code)
	}
	return a
}

// TestProposals: proposals wait for their time, an approval and funds, or expire, by the schedule alone. Two are
// cancelled while their release waits to reserve a nonce: one in time, the other not.
func TestProposals(t *testing.T) {
	o := newOperator(t)
	t.Parallel() // after the tests that look at all wallets
	s := o.s
	m, short, made := newMerchant(t, s), newMerchant(t, s), struct{ Address string }{}
	o.ok(&made, "wallet", "create", "--yes", "--merchant", short.owner)
	give := func(tokens uint64) { // and gas
		to := must.Get(token.ParseAddress(made.Address))(t)
		must.OK(t, devnet.Give(t.Context(), s.Chain.URL(), to, token.Units(tokens), token.Units(1e18)))
	}
	give(7_000_002)
	none := map[string]any{"approval": "none"}
	due := time.Now().Add(time.Minute).Truncate(time.Second)
	timed := m.propose("timed", 7_000_001, map[string]any{"approval": "none", "not_before": due.UTC().Format(time.RFC3339)})
	awaiting := m.keyOf(map[string]any{"scopes": []string{"payments:propose"}}).propose("awaiting", 7_000_002, nil)
	endpoint, got := receive(t, 0)
	hook := m.call("POST", "/webhooks", map[string]any{"url": endpoint, "event_types": []string{"proposal.expired"}}).want(t, 201)
	expiring := m.propose("expiring", 7_000_006, map[string]any{"expires_in_seconds": 60})
	funds := short.propose("funds", 7_000_003, none)

	release := func() { s.invoke(t, "ReleaseProposals", sample(t, "release-proposals")) }
	release()
	m.is(timed, "scheduled")
	m.is(awaiting, "awaiting_approval")
	if a := short.is(funds, "scheduled"); !strings.Contains(a.text, `"code":"insufficient_funds"`) {
		t.Errorf("from a wallet with too little: %s", a.text)
	}
	give(2_000_000)
	a := m.refused("POST", "/send-payment", 7_000_002, "awaiting", 409, "proposal_open")
	if a.get("proposal") != awaiting[len("/proposals/"):] {
		t.Errorf("under an open proposal: %s", a.text)
	}
	m.refused("GET", "/transactions?idempotency_key=awaiting", 0, "", 409, "proposal_open")

	for key, late := range map[string]bool{"too-late": true, "in-time": false} {
		path := m.propose(key, map[bool]int{true: 7_000_004, false: 7_000_005}[late], none)
		reached, open := s.calls.hold(s.Resources["ReleaseProposalsFunction"], "SET reservations.#id")
		t.Cleanup(open)
		ended := make(chan struct{})
		go func() { defer close(ended); release() }()
		<-reached
		if a := m.refused("POST", path+"/cancel", 0, "", 409, "proposal_in_progress"); a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: %s", a.header)
		}
		m.refused("GET", "/transactions?idempotency_key="+key, 0, "", 409, "idempotency_in_progress")
		if late {
			open()
			<-ended
			m.refused("POST", path+"/cancel", 0, "", 409, "proposal_released")
			continue
		}
		until(t, "taking a release back", func() bool { return m.call("POST", path+"/cancel", nil).status == 200 })
		open()
		<-ended
		m.is(path, "cancelled")
		m.refused("POST", "/send-payment", 7_000_005, key, 422, "idempotency_key_reused")
	}
	m.call("POST", awaiting+"/approve", nil).want(t, 200)

	node := must.Get(ethclient.DialContext(t.Context(), s.Chain.URL()))(t)
	defer node.Close()
	transfers := ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{common.Address(s.Chain.Token().Contract)},
		Topics: [][]common.Hash{{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil, {common.HexToHash(recipient)}}}
	paid := map[int64][]string{} // from whom, by the amount
	until(t, "releasing by the schedule", func() bool {
		clear(paid)
		for _, l := range must.Get(node.FilterLogs(t.Context(), transfers))(t) {
			if amount := new(big.Int).SetBytes(l.Data).Int64(); 7_000_000 < amount && amount < 7_000_010 {
				paid[amount] = append(paid[amount], common.HexToAddress(l.Topics[1].Hex()).String())
			}
		}
		return len(paid) == 4
	})
	if took := time.Since(due); took < 0 {
		t.Errorf("released %v before its time", -took)
	}
	for amount, from := range paid {
		if len(from) != 1 || strings.EqualFold(from[0], made.Address) != (amount == 7_000_003) || amount == 7_000_005 {
			t.Errorf("%d was paid from %s", amount, from)
		}
	}
	verified(t, got, hook.get("secret"), "proposal.expired")
	m.is(expiring, "expired")
	for path, by := range map[string]merchant{timed: m, awaiting: m, funds: short} {
		by.is(path, "released")
	}
	if list := short.call("GET", "/wallets", nil).want(t, 200).text; !strings.Contains(list, `"spendable":1999999,`) {
		t.Errorf("its wallets: %s", list)
	}
}
