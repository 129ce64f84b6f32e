package payment_test

import (
	"crypto/rand"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestNewID: a key always has the same id, and no other payment or event has it.
func TestNewID(t *testing.T) {
	form := regexp.MustCompile(`^pay_[a-z2-7]{32}$`)
	zeros := string(make([]byte, 8)) // as long as the length of a part is written
	seen := map[payment.ID][]string{}
	for _, of := range [][]string{{"m", "test", "k"}, {"n", "test", "k"}, {"m", "live", "k"}, {"m", "test", "K"}, {"mt", "est", "k"},
		{"m" + zeros + "t", "e", "k"}, {"m", "t" + zeros + "e", "k"}, {"m", "test", ""}, {"m", "test", ""}, {"m", "test", "\x00"}} {
		id, err := payment.NewID(of[0], of[1], of[2], rand.Reader)
		if err != nil || !form.MatchString(string(id)) || seen[id] != nil || of[2] != "" && id != payment.KeyID(of[0], of[1], of[2]) {
			t.Errorf("%q: %s, %v; %q has the same", of, id, err, seen[id])
		}
		seen[id] = of
	}
	if _, err := payment.NewID("m", "test", "", iotest.ErrReader(errFull)); !errors.Is(err, errFull) {
		t.Errorf("without randomness: %v: two payments would share an id", err)
	}
	a := payment.EventID("pay_1", "payment.confirmed")
	if a != payment.EventID("pay_1", "payment.confirmed") || a == payment.EventID("pay_1", "payment.failed") ||
		a == payment.EventID("pay_2", "payment.confirmed") || !regexp.MustCompile(`^evt_[a-z2-7]{32}$`).MatchString(a) {
		t.Errorf("event id %s is not one per payment and type", a)
	}
}

// TestFingerprint: same meaning, same fingerprint; any other meaning, another.
func TestFingerprint(t *testing.T) {
	type meaning struct {
		to, amount, chain, asset byte
		reference                string
		metadata                 map[string]string
	}
	small, bit := rapid.SampledFrom([]string{"", "a", "b", "ab"}), rapid.ByteRange(0, 1)
	draw := func(t *rapid.T) (meaning, string) {
		m := meaning{bit.Draw(t, "to"), bit.Draw(t, "amount"), bit.Draw(t, "chain"), bit.Draw(t, "asset"),
			small.Draw(t, "reference"), rapid.MapOfN(small, small, 0, 2).Draw(t, "metadata")}
		return m, payment.Request{To: token.Address{19: m.to}, Amount: token.Units(uint64(m.amount)), Reference: m.reference,
			Metadata: m.metadata, Merchant: small.Draw(t, "merchant"), IdempotencyKey: small.Draw(t, "key"),
			Asset: token.Coin{ChainID: uint64(m.chain), Contract: token.Address{19: m.asset}}}.Fingerprint()
	}
	rapid.Check(t, func(t *rapid.T) {
		a, of := draw(t)
		b, other := draw(t)
		if same := reflect.DeepEqual(a, b); (of == other) != same {
			t.Fatalf("%+v and %+v, fingerprints %s and %s", a, b, of, other)
		}
	})
	other := asked
	if other.Metadata = map[string]string{"order": "1"}; other.Fingerprint() == asked.Fingerprint() {
		t.Error("the values of metadata do not count")
	}
}

// TestBatch: no two of these requests mean the same.
func TestBatch(t *testing.T) {
	one, two := payment.Entry{To: token.Address{1}, Amount: token.Units(5)}, payment.Entry{To: token.Address{2}, Amount: token.Units(6)}
	of := func(entries ...payment.Entry) payment.Request {
		r, ok := asked.Batch(entries)
		if !ok {
			t.Errorf("%v is no batch", entries)
		}
		return r
	}
	named, single, seen := one, of(one), map[string]string{}
	named.Reference, single.Entries = "r", nil
	elsewhere, there := of(one), single
	elsewhere.Asset.ChainID, there.Asset.ChainID = 1, 1
	for name, r := range map[string]payment.Request{"one payment": single, "a batch of one": of(one),
		"of another asset": elsewhere, "one of another asset": there,
		"with a reference": of(named), "two": of(one, two), "the other way round": of(two, one)} {
		if other := seen[r.Fingerprint()]; other != "" {
			t.Errorf("%s means the same as %s", name, other)
		}
		seen[r.Fingerprint()] = name
	}
	if r := of(one, two); r.Amount != token.Units(11) || !r.To.IsZero() || single.To != one.To {
		t.Errorf("%+v, and of one %+v", r, single)
	}
	if a, b := asked.Fingerprint(), of(one, two).Fingerprint(); a != "dupaoje7fvnfvhwxvyntp5ifnblwxah2" ||
		b != "6bnity4ekfdcajr4tjhav6hwgscn3vvp" {
		t.Errorf("%s and %s are not the stored fingerprints: a request without a new field keeps its old one", a, b)
	}
	if r, ok := asked.Batch([]payment.Entry{one, {Amount: token.MaxAmount()}}); ok {
		t.Errorf("more than there can be: %+v", r)
	}
	p := payment.New("pay_1", of(named, two), coin, "net", now)
	if v := p.Public(); v.To != nil || v.WalletAddress != nil || len(v.Payments) != 2 || v.Payments[1].To != two.To ||
		*v.Payments[0].Reference != "r" {
		t.Errorf("merchants see %+v", v)
	}
}

// TestMemo: an ID and its memo name each other. An ID of another form has no memo.
func TestMemo(t *testing.T) {
	id := payment.KeyID("m", "test", "order 2")
	if memo := id.Memo(); len(memo) != 20 || payment.MemoID(memo) != id {
		t.Errorf("memo of %s is %x, which is of %s", id, memo, payment.MemoID(memo))
	}
	for _, id := range []payment.ID{"", "pay_1", "evt_" + payment.ID(strings.Repeat("a", 32)),
		"pay_" + payment.ID(strings.Repeat("1", 32)), "pay_" + payment.ID(strings.Repeat("a", 40))} {
		if memo := id.Memo(); memo != nil {
			t.Errorf("memo of %q is %x", id, memo)
		}
	}
}

// A cells is a row with a cell of each kind.
type cells struct {
	Text   string            `json:"text"`
	Number token.Amount      `json:"number"`
	None   *int              `json:"none"`
	List   []int             `json:"list"`
	Pairs  map[string]string `json:"pairs"`
}

// TestCSV: cells are the fields as in JSON, and none is a formula.
func TestCSV(t *testing.T) {
	var out strings.Builder
	rows := []cells{{"a, \"b\"\n<c>", token.MaxAmount(), nil, []int{1}, map[string]string{"<": "&"}}}
	for _, formula := range []string{"=1", "+1", "-1", "@a", "\t=1", "\r=1", "'=1", "1=1", "", "null", "a;=1", "a\x1b[2J", " a"} {
		rows = append(rows, cells{Text: formula})
	}
	must.OK(t, payment.CSV(&out, true, rows...))
	want := "text,number,none,list,pairs\r\n\"a, \"\"b\"\"\n<c>\"," + token.MaxAmount().String() + ",,[1],\"{\"\"<\"\":\"\"&\"\"}\"\r\n" +
		"'=1,0,,,\r\n'+1,0,,,\r\n'-1,0,,,\r\n'@a,0,,,\r\n\"'\t=1\",0,,,\r\n\"'\r=1\",0,,,\r\n'=1,0,,,\r\n1=1,0,,,\r\n,0,,,\r\nnull,0,,,\r\n\"a;=1\",0,,,\r\n\"a\x1b[2J\",0,,,\r\n a,0,,,\r\n"
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
	if err := payment.CSV(full{}, true, rows...); !errors.Is(err, errFull) {
		t.Errorf("a disk that is full: %v", err)
	}
}

var errFull = errors.New("no space left")

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
