package token_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const most = "115792089237316195423570985008687907853269984665640564039457584007913129639935" // 2^256-1

// amounts draws from the whole range, its ends more often than their share.
func amounts() *rapid.Generator[token.Amount] {
	return rapid.Custom(func(t *rapid.T) token.Amount {
		return must.Get(token.AmountFromBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "bytes")))(t)
	})
}

func bigOf(a token.Amount) *big.Int {
	n, _ := new(big.Int).SetString(a.String(), 10)
	return n
}

// TestAmountArithmetic holds every operation against math/big.
func TestAmountArithmetic(t *testing.T) {
	limit := bigOf(token.MaxAmount())
	rapid.Check(t, func(t *rapid.T) {
		a, b := amounts().Draw(t, "a"), amounts().Draw(t, "b")
		n, den := rapid.Uint64().Draw(t, "n"), rapid.Uint64Min(1).Draw(t, "den")
		x, y := bigOf(a), bigOf(b)
		checked := func(name string, got token.Amount, err error, want *big.Int) {
			if fits := want.Cmp(limit) <= 0; fits != (err == nil) || !fits && !errors.Is(err, token.ErrOverflow) ||
				fits && bigOf(got).Cmp(want) != 0 {
				t.Fatalf("%s = %v, %v; want %v", name, got, err, want)
			}
		}
		sum, err := a.Add(b)
		checked("a+b", sum, err, new(big.Int).Add(x, y))
		product, err := a.Times(n)
		checked("a*n", product, err, new(big.Int).Mul(x, new(big.Int).SetUint64(n)))
		if want := new(big.Int).Sub(x, y); want.Sign() < 0 {
			checked("a-b", a.Sub(b), nil, new(big.Int)) // never below zero
		} else {
			checked("a-b", a.Sub(b), nil, want)
		}
		if a.Cmp(b) != x.Cmp(y) || a.Less(b) != (x.Cmp(y) < 0) || a.IsZero() != (x.Sign() == 0) {
			t.Fatalf("comparing %v with %v", a, b)
		}
		up := new(big.Int).Mul(x, new(big.Int).SetUint64(n))
		if up.Cmp(limit) > 0 {
			checked("scaled", a.ScaleUp(n, den), nil, limit)
			return
		}
		d := new(big.Int).SetUint64(den)
		up.Add(up, d).Sub(up, big.NewInt(1)).Div(up, d)
		checked("scaled", a.ScaleUp(n, den), nil, up)
	})
}

func TestAmountForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := amounts().Draw(t, "a")
		word := a.Bytes32()
		if back, err := token.AmountFromBytes(word[:]); err != nil || back != a {
			t.Fatalf("AmountFromBytes(Bytes32) = %v, %v; want %v", back, err, a)
		}
		if back, err := token.ParseAmount(a.String()); err != nil || back != a {
			t.Fatalf("ParseAmount(String) = %v, %v; want %v", back, err, a)
		}
		text, err := json.Marshal(a)
		if err != nil || string(text) != a.String() {
			t.Fatalf("JSON = %s, %v; want the integer literal %v", text, err, a)
		}
		var back token.Amount
		if err := json.Unmarshal(text, &back); err != nil || back != a {
			t.Fatalf("read back %v, %v; want %v", back, err, a)
		}
		n, fits := a.Uint64()
		if fits != bigOf(a).IsUint64() || fits && token.Units(n) != a {
			t.Fatalf("Uint64() = %d, %v of %v", n, fits, a)
		}
	})
	if _, err := token.AmountFromBytes(make([]byte, 33)); !errors.Is(err, token.ErrAmount) {
		t.Errorf("33 bytes: %v, want ErrAmount", err)
	}
	for _, bad := range []string{`"1"`, `1.0`, `1e6`, `-1`, `null`, `true`} {
		a := token.Units(7)
		if err := json.Unmarshal([]byte(bad), &a); !errors.Is(err, token.ErrAmount) {
			t.Errorf("Unmarshal(%s) = %v, want ErrAmount", bad, err)
		}
		if a != token.Units(7) {
			t.Errorf("Unmarshal(%s) changed the amount to %v", bad, a)
		}
	}
}

func TestScaleUpByZero(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a zero denominator did not panic")
		}
	}()
	token.Units(1).ScaleUp(1, 0)
}

func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{"0", "1", "01", "1e6", most, most[:77] + "6", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1_000", "١"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := token.ParseAmount(s)
		if (err == nil) == errors.Is(err, token.ErrAmount) {
			t.Fatalf("ParseAmount(%q): %v is not ErrAmount", s, err)
		}
		if err == nil && a.String() != s {
			t.Fatalf("ParseAmount(%q) = %v: a second spelling", s, a)
		}
	})
}

// TestChecksum holds EIP-55's own test cases.
func TestChecksum(t *testing.T) {
	for _, want := range []string{
		"0x52908400098527886E0F7030069857D2E4169EE7",
		"0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77",
		"0x27b1fdb04752bbc536007a920d24acb045561c26",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
		"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		for _, form := range []string{want, strings.ToLower(want), "0x" + strings.ToUpper(want[2:])} {
			a, err := token.ParseAddress(form)
			if err != nil || a.String() != want {
				t.Errorf("ParseAddress(%q) = %v, %v; want %s", form, a, err, want)
			}
		}
	}
}

func TestAddressForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a token.Address
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "bytes"))
		text := must.Get(a.MarshalText())(t)
		var back token.Address
		if err := back.UnmarshalText(text); err != nil || back != a {
			t.Fatalf("UnmarshalText(%s) = %v, %v", text, back, err)
		}
		// Any one letter in the other case is a mistyped address.
		i := rapid.IntRange(2, 41).Draw(t, "at")
		flipped := []byte(text)
		flipped[i] ^= 0x20
		lower, upper := strings.ToLower(string(text[2:])), strings.ToUpper(string(text[2:]))
		if text[i] <= '9' || string(flipped[2:]) == lower || string(flipped[2:]) == upper {
			return
		}
		if _, err := token.ParseAddress(string(flipped)); !errors.Is(err, token.ErrChecksum) {
			t.Fatalf("ParseAddress(%s) = %v, want ErrChecksum", flipped, err)
		}
	})
}

// TestResembles: all but the first and last four digits may differ, and something must.
func TestResembles(t *testing.T) {
	a := token.Address{0: 0xab, 1: 0xcd, 9: 1, 18: 0x12, 19: 0x34}
	for b, want := range map[token.Address]bool{
		a:                                      false,
		{0: 0xab, 1: 0xcd, 18: 0x12, 19: 0x34}: true,
		{0: 0xab, 1: 0xcd, 2: 7, 17: 7, 18: 0x12, 19: 0x34}: true,
		{0: 0xab, 1: 0xce, 18: 0x12, 19: 0x34}:              false,
		{0: 0xab, 1: 0xcd, 18: 0x13, 19: 0x34}:              false,
	} {
		if a.Resembles(b) != want || b.Resembles(a) != want {
			t.Errorf("%s resembles %s: want %t", b, a, want)
		}
	}
}

// TestTokens: ParseTokens reads the texts of Tokens, at any number of decimals, and nothing ambiguous.
func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount, err := token.AmountFromBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "amount"))
		decimals := rapid.IntRange(0, 30).Draw(t, "decimals")
		again, readErr := token.ParseTokens(amount.Tokens(decimals), decimals)
		if err != nil || readErr != nil || again != amount {
			t.Fatalf("%v is %q, which is %v (%v, %v)", amount, amount.Tokens(decimals), again, err, readErr)
		}
	})
	for text, want := range map[string]string{"1": "1000000", "1.5": "1500000", "0.000001": "1", "1.500000": "1500000", "0": "0", "0.0": "0"} {
		if got, err := token.ParseTokens(text, 6); err != nil || got.String() != want {
			t.Errorf("%q is %v %v, not %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "1.0000001", "1,5", "1 000", "-1", "+1", "1e6", "01", "00.1",
		"0x1", "1.5.2", " 1", strings.Repeat("9", 78)} {
		if got, err := token.ParseTokens(text, 6); !errors.Is(err, token.ErrAmount) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

func TestParseCoin(t *testing.T) {
	const name = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	digits := strings.TrimPrefix(name, "eip155:8453/erc20:0x")
	for text, good := range map[string]bool{
		name: true, "eip155:8453/erc20:0x" + strings.ToLower(digits): true, "eip155:8453/erc20:0x" + strings.ToUpper(digits): true,
		strings.ToUpper(name): false, "eip155:8453/erc20:0X" + digits: false, "eip155:08453/erc20:0x" + digits: false,
		"EIP155:8453/erc20:0x" + digits: false, "eip155:8453/ERC20:0x" + digits: false, "8453/erc20:0x" + digits: false,
		"eip155:8453/erc20:0x" + digits[1:]: false, name + "0": false, " " + name: false, name + "\n": false, "": false,
		"eip155:18446744073709551616/erc20:0x" + digits: false, "eip155:eip155:8453/erc20:0x" + digits: false,
		"eip155:+8453/erc20:0x" + digits: false, "eip155:8453/erc20:0x" + strings.Repeat("g", 40): false,
	} {
		c, ok := token.ParseCoin(text)
		if ok != good || good && (c.String() != name || c.ChainID != 8453) {
			t.Errorf("%q: %v, %t; want %t", text, c, ok, good)
		}
	}
}
