package apikey_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

func mint(t testing.TB, mode apikey.Mode) apikey.Secret {
	t.Helper()
	return must.Get(apikey.Mint(storetest.Random(7), mode))(t)
}

// TestGolden fixes the format: keys in merchants' hands must go on being read.
// The checksums were computed with another implementation of CRC-32.
func TestGolden(t *testing.T) {
	for _, key := range []string{
		"remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg1K7XZ5",
		"remit_live_zzzzzzzzzzzz_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz0N3G6b",
		"remit_test_000000000000_00000000000000000000000000000000000000000040t32JA", // a checksum with a leading zero
	} {
		if s, err := apikey.Parse(key); err != nil || s.Reveal() != key {
			t.Errorf("Parse(%q) = %v, %v", key, s, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	test, live := mint(t, apikey.Test).Reveal(), mint(t, apikey.Live).Reveal()
	body := test[:len(test)-6]
	for name, in := range map[string]string{
		"another scheme":                summed(strings.Replace(body, "remit", "remix", 1)),
		"another mode, with its sum":    summed(strings.Replace(body, "_test_", "_prod_", 1)),
		"no mark behind the mode":       summed(strings.Replace(body, "_test_", "_test.", 1)),
		"no mark behind the id":         summed(body[:23] + "." + body[24:]),
		"a mark in the id":              summed(body[:12] + "_" + body[13:]),
		"a mark in the random part":     summed(body[:30] + "_" + body[31:]),
		"nothing":                       "",
		"blanks":                        "   ",
		"a blank before":                " " + test,
		"a line feed after":             test + "\n",
		"quotes":                        `"` + test + `"`,
		"two keys in one header":        test + ", " + live,
		"the same key twice":            test + test,
		"upper case":                    strings.ToUpper(test),
		"a test key relabelled as live": strings.Replace(test, "_test_", "_live_", 1),
		"another mode":                  strings.Replace(test, "_test_", "_prod_", 1),
		"the prefix alone":              mint(t, apikey.Test).Prefix(),
		"a Bearer token":                "Bearer " + test,
		"a megabyte":                    strings.Repeat("a", 1<<20),
		"not UTF-8":                     test[:20] + "\xff" + test[21:],
		"letters that look the same":    strings.Replace(test, "e", "е", 1)[:len(test)],
	} {
		if _, err := apikey.Parse(in); !errors.Is(err, apikey.ErrInvalid) {
			t.Errorf("%s: error = %v, want ErrInvalid", name, err)
		}
	}
}

// summed returns a key's text with its checksum.
func summed(body string) string {
	n, sum := crc32.ChecksumIEEE([]byte(body)), ""
	for range 6 {
		sum = string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[n%62]) + sum
		n /= 62
	}
	return body + sum
}

func FuzzParse(f *testing.F) {
	f.Add(mint(f, apikey.Test).Reveal())
	f.Add("remit_live_")
	f.Fuzz(func(t *testing.T, in string) {
		s, err := apikey.Parse(in)
		if (err == nil) != (s.Reveal() != "") {
			t.Fatalf("Parse(%q) = %v, %v", in, s, err)
		}
		if err == nil && s.Reveal() != in {
			t.Fatalf("Parse(%q) holds %q", in, s.Reveal())
		}
	})
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := mint(t, apikey.Test)
	hidden := s.Reveal()[len(s.Prefix())+1:]
	m := apikey.Minted{Secret: s}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("minted", "secret", s, "minted", m, "pointer", &m)
	slog.New(slog.NewTextHandler(&log, nil)).Info("minted", "secret", s, "minted", m)
	encoded := must.Get(json.Marshal(m))(t)
	printed := log.String() + string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		printed += fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s) + fmt.Sprintf(verb, m) + fmt.Sprintf(verb, &m)
	}
	if got := fmt.Sprint(s); got != s.Prefix()+"_…" {
		t.Errorf("a secret prints as %q", got)
	}
	for i := range len(hidden) - 6 {
		if part := hidden[i : i+7]; strings.Contains(printed, part) {
			t.Fatalf("the key's characters %q are in %s", part, printed)
		}
	}
	if got := fmt.Sprint(apikey.Secret{}); got != "(no key)" {
		t.Errorf("the zero secret prints as %q", got)
	}
}

// TestEveryDigitIsAsLikely: bytes from 248 on, 4 times 62, are passed over.
func TestEveryDigitIsAsLikely(t *testing.T) {
	want := must.Get(apikey.Mint(strings.NewReader("\xf7"+strings.Repeat("a", 54)), apikey.Test))(t)
	got := must.Get(apikey.Mint(strings.NewReader("\xf8\xff\xf7"+strings.Repeat("a", 54)), apikey.Test))(t)
	if got != want {
		t.Errorf("minted %s, want %s", got.Reveal(), want.Reveal())
	}
}

func TestTermsText(t *testing.T) {
	for want, terms := range map[string]apikey.Terms{
		"": {}, `{"suspended":"fraud","max_amount":5}`: {Suspended: "fraud", Maximum: token.Units(5)},
	} {
		if got, err := apikey.ParseTerms(want); err != nil || got != terms || terms.Text() != want {
			t.Errorf("%+v is %s; read as %+v, %v", terms, terms.Text(), got, err)
		}
	}
	if _, err := apikey.ParseTerms("{"); err == nil {
		t.Error("half an object is read")
	}
}

func TestCheckName(t *testing.T) {
	outcomes := map[string]error{
		"taken": nil, "blank": apikey.ErrNameBlank, "too long": apikey.ErrNameTooLong,
		"control": apikey.ErrNameControl, "encoding": apikey.ErrNameEncoding,
	}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		if err := apikey.CheckName(c.In[0]); !errors.Is(err, outcomes[c.Want]) {
			t.Errorf("CheckName(%q) = %v, want %v", c.In[0], err, outcomes[c.Want])
		}
	})
}
