package chain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func TestParseHash(t *testing.T) {
	digits := strings.Repeat("0aF1", 16)
	want := "0x" + strings.ToLower(digits)
	for _, good := range []string{digits, "0x" + digits, "0X" + digits, want} {
		if h, err := chain.ParseHash(good); err != nil || h.String() != want {
			t.Errorf("ParseHash(%q) = %v, %v", good, h, err)
		}
	}
	for _, bad := range []string{"", "0x", digits[1:], digits + "0", "0x0x" + digits[2:], "0x" + strings.Repeat("g", 64), " " + digits} {
		if h, err := chain.ParseHash(bad); !errors.Is(err, chain.ErrHash) {
			t.Errorf("ParseHash(%q) = %v, %v; want ErrHash", bad, h, err)
		}
	}
	var h chain.Hash
	must.OK(t, h.UnmarshalText([]byte(want)))
	if text, err := h.MarshalText(); err != nil || string(text) != want || h.IsZero() {
		t.Errorf("MarshalText() = %s, %v", text, err)
	}
	if err := h.UnmarshalText([]byte("x")); !errors.Is(err, chain.ErrHash) || h.IsZero() {
		t.Errorf("UnmarshalText(x) = %v, left %v", err, h)
	}
}

func TestParseConfirmationRule(t *testing.T) {
	for in, want := range map[string]chain.ConfirmationRule{
		"safe": {Tag: "safe"}, "finalized": {Tag: "finalized"}, "0": {}, "12": {Depth: 12},
	} {
		f, err := chain.ParseConfirmationRule(in)
		if err != nil || f != want || f.String() != in {
			t.Errorf("ParseConfirmationRule(%q) = %v, %v", in, f, err)
		}
	}
	for _, bad := range []string{"", "latest", "pending", "-1", "1.5", "Safe", "4294967296", " 1"} {
		if f, err := chain.ParseConfirmationRule(bad); !errors.Is(err, chain.ErrConfirmationRule) {
			t.Errorf("ParseConfirmationRule(%q) = %v, %v; want ErrConfirmationRule", bad, f, err)
		}
	}
}
