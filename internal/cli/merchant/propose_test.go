package merchant_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// TestAgentProposes: an agent without the right to pay asks, and another key approves.
func TestAgentProposes(t *testing.T) {
	api := stack(t)
	keyOf := func(guard *int32, scopes ...remit.Scope) string {
		asked := remit.IssueAPIKeyRequest{RepeatGuardSeconds: guard, Scopes: scopes}
		return must.Get(api.CreateKey(t.Context(), asked))(t).APIKey
	}
	scopes := []remit.Scope{remit.ScopePaymentsPropose, remit.ScopePaymentsRead}
	unguarded := connectAgent(t, merchant.MCP{URL: api.URL, Key: keyOf(nil, scopes...)})
	agent := connectAgent(t, merchant.MCP{URL: api.URL, Key: keyOf(new(int32(3600)), scopes...)})
	ask := func(of bot, want string) {
		t.Helper()
		if text := of.call("pay", `{"intent":"i","to":"`+payee+`","amount":"1"}`); !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
	ask(unguarded, "has no repeat_guard_seconds")
	ask(agent, "NOTHING is paid yet")
	if text := agent.call("find", `{"intent":"i"}`); !strings.Contains(text, "waits for approval") {
		t.Error(text)
	}
	second := &remit.Client{URL: api.URL, Key: keyOf(nil, remit.ScopePaymentsApprove, remit.ScopePaymentsRead)}
	for p, err := range second.Proposals(t.Context(), url.Values{}) {
		must.OK(t, err)
		must.Get(second.Approve(t.Context(), p.ID))(t)
		for must.Get(second.GetProposal(t.Context(), p.ID))(t).Status != "released" {
			time.Sleep(100 * time.Millisecond)
		}
	}
	ask(agent, "A person approved it")
}

// TestProposeAFile: each row is proposed once, in any order, and the same run then pays no row.
func TestProposeAFile(t *testing.T) {
	api := stack(t)
	open := func() (all []remit.Proposal) {
		for p, err := range api.Proposals(t.Context(), url.Values{}) {
			must.OK(t, err)
			all = append(all, p)
		}
		return all
	}
	a, b, c := "0x7e57000000000000000000000000000000000001,1,a\n", payee+",1,b\n", payee+",1,c\n"
	const header = "address,amount,reference\n"
	try := func(rows, flags string, status int, says string) string {
		t.Helper()
		return pays(t, api, write(t, header+rows), "--yes --run="+flags, status, says)
	}
	for _, rows := range []string{a + b, b + a, a + b} {
		out := try(rows, "r --propose", 0, "")
		if strings.Count(out, "awaiting_approval") != 2 {
			t.Fatal(out)
		}
	}
	if n := len(open()); n != 2 {
		t.Fatalf("%d proposals of 2 rows", n)
	}
	for _, rows := range []string{a + c, c + a} {
		try(rows, "r --propose", 1, `(?s)proposed before +1 row,.*to propose +1 row.*`+
			`line \d repeats a row that this run has as "b": 1 USDC .*nothing was proposed: .* add --changed`)
	}
	for newer, says := range map[int]string{9_000: `(?s)proposed before +2 rows.*to propose +nothing\n`,
		10_001: `nothing was proposed: over 10,000 proposals are newer`} {
		pays(t, crowded(t, api, "/proposals", newer), write(t, header+b+a), "--propose --run=r", newer/10_000, says)
	}
	try(a+b, "r --propose --not-before=2999-01-01T00:00:00Z", 1,
		`nothing was proposed: this run was proposed without --not-before \(prp_\w+ is awaiting_approval\); repeat`)
	try(c, "s --propose --not-before=2020-01-01T00:00:00Z", 1, `the time of --not-before has passed; leave it out`)
	try(a+b, "r", 1, `paid: this run is proposed \(prp_\w+ is awaiting_approval\)`)
	made := must.Get(api.CreateKey(t.Context(), remit.IssueAPIKeyRequest{Scopes: []remit.Scope{remit.ScopePaymentsApprove}}))(t)
	second := &remit.Client{URL: api.URL, Key: made.APIKey}
	for _, p := range open() {
		if p.Request.Reference == "a" {
			must.Get(second.Approve(t.Context(), p.ID))(t)
			for ; p.Payment == nil || p.Payment.Status != "failed"; time.Sleep(100 * time.Millisecond) {
				p = must.Get(api.GetProposal(t.Context(), p.ID))(t)
			}
			continue
		}
		try(a+b, "r", 1, `this run is proposed \(prp_`)
		err := must.Err(api.Cancel(t.Context(), p.ID))
		for err != nil && strings.Contains(err.Error(), "proposal_in_progress") { // until a run has compared
			time.Sleep(100 * time.Millisecond)
			err = must.Err(api.Cancel(t.Context(), p.ID))
		}
		must.OK(t, err)
	}
	try(a+b, "r --propose", 1, `(?s)failed or ended 2 rows, not proposed again: use another reference.*`+
		`to propose +nothing\nline 2, 1 row: prp_\w+ is failed execution_reverted.*\nline 3, 1 row: prp_\w+ is cancelled\n2 rows refused, failed or ended`)
	for _, rows := range []string{b, strings.Replace(b, ",b", ",bb", 1)} { // and one that was changed since
		try(a+rows, "r", 1, `paid: this run is proposed \(prp_\w+ is released\); add --propose`)
	}
	paid := 0
	for _, err := range api.List(t.Context(), url.Values{}) {
		must.OK(t, err)
		paid++
	}
	if try(a+b, "batch --propose --batch --again", 0,
		`line 2, 2 rows: prp_\w+ is awaiting_approval\nEach is paid at its time, once another key`); paid != 1 {
		t.Errorf("%d are paid", paid)
	}
	proposals := open()
	try(a+b, "batch --propose --batch", 0, `(?s)proposed before 2 rows.*to propose      nothing\nEach is paid`)
	try(a+c, "batch --propose --batch", 1, `this run has 1 row otherwise; restore`)
	try(a+b, "batch --propose", 1, "was begun")
	d := "0x3333333333333333333333333333333333333333,1,d\n"
	try(b+a+d, "batch --propose --batch", 0, `(?s)proposed before 2 rows.*\nline 4, 1 row: prp_\w+ is awaiting_approval\n`)
	if all := open(); len(all) != len(proposals)+1 || len(all[0].Request.Payments) != 1 {
		t.Errorf("a row more, and others sorted: %+v", all)
	}
	failed := must.Get(second.Approve(t.Context(), proposals[0].ID))(t)
	for ; failed.Payment == nil || failed.Payment.Status != "failed"; time.Sleep(100 * time.Millisecond) {
		failed = must.Get(api.GetProposal(t.Context(), failed.ID))(t)
	}
	try(a+b, "batch --propose --batch", 1, `(?s)failed or ended 2 rows.*\n2 rows refused, failed or ended`)
	try(a+b, "batch --batch", 1, `paid: this run is proposed \(prp_\w+ is released\)`)
	try(a, "alone --again", 2, "")
	try(a+b, "alone --propose", 1, "paid without --propose; give the proposals")
}
