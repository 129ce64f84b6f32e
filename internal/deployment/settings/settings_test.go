package settings_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
)

var rail = settings.Rail{ChainID: 1, Token: token.Token{Contract: token.Address{1}, Symbol: "USDC", Decimals: 6}, Network: "devnet"}

// TestValues sets one value after another.
func TestValues(t *testing.T) {
	const a, b = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
	s := settings.Default(rail)
	for _, step := range []struct {
		name, value, want string // want: tighter, looser, or refused
	}{
		{"ChainId", "2", "looser"}, {"ChainId", "0", "refused"}, {"TokenAddress", a, "looser"}, {"TokenAddress", "", "refused"},
		{"TokenSymbol", "EURC", "looser"}, {"TokenSymbol", "", "refused"}, {"TokenSymbol", "E C", "refused"},
		{"TokenSymbol", "THIRTEEN-LONG", "refused"}, {"TokenDecimals", "36", "looser"},
		{"TokenDecimals", "37", "refused"}, {"Network", "base", "looser"}, {"Network", "", "refused"},
		{"ConfirmationRule", "3", "looser"}, {"ConfirmationRule", "finalized", "tighter"}, {"ConfirmationRule", "", "looser"},
		{"ConfirmationRule", "soon", "refused"}, {"Quorum", "strict", "tighter"}, {"Quorum", "", "looser"},
		{"BlockTime", "2s", "tighter"}, {"BlockTime", "2m", "refused"}, {"BlockTime", "2", "refused"},
		{"TokenLow", "5", "tighter"}, {"TokenLow", "4", "looser"}, {"TokenLow", "4.5", "refused"},
		{"GasLowGwei", "5", "tighter"}, {"GasLowGwei", "4", "looser"}, {"GasLowGwei", "", "refused"},
		{"Closed", "true", "tighter"}, {"Closed", "false", "looser"}, {"Closed", "", "refused"},
		{"AmountMinimum", "10", "tighter"}, {"AmountMinimum", "9", "looser"}, {"AmountMinimum", "-1", "refused"},
		{"AmountMinimum", "", "refused"}, {"Quorum", "most", "refused"},
		{"AmountMaximum", "100", "tighter"}, {"AmountMaximum", "101", "looser"}, {"AmountMaximum", "0", "looser"},
		{"AmountMaximum", "1e6", "refused"},
		{"DailyLimit", "1000", "tighter"}, {"DailyLimit", "999", "tighter"}, {"DailyLimit", "1000", "looser"}, {"DailyLimit", "0", "looser"},
		{"ApproveAbove", "50", "tighter"}, {"ApproveAbove", "51", "looser"}, {"ApproveAbove", "0", "refused"}, {"ApproveAbove", "", "looser"},
		{"RequireIdempotencyKey", "true", "tighter"}, {"RequireIdempotencyKey", "false", "looser"}, {"RequireIdempotencyKey", "yes", "refused"},
		{"SanctionsList", a, "tighter"}, {"SanctionsList", b, "looser"}, {"SanctionsList", "", "looser"}, {"SanctionsList", "0x1", "refused"},
		{"BatchContract", a, "looser"}, {"BatchContract", b, "looser"}, {"BatchContract", "", "tighter"},
		{"MaxFeeCapGwei", "5", "looser"}, {"MaxFeeCapGwei", "4", "tighter"}, {"MaxFeeCapGwei", "0", "looser"},
		{"MaxFeeCapGwei", "1000000001", "refused"},
		{"NonceWindow", "64", "looser"}, {"NonceWindow", "16", "tighter"}, {"NonceWindow", "0", "looser"}, {"NonceWindow", "65", "refused"},
		{"MerchantCap", "51", "looser"}, {"MerchantCap", "1", "tighter"}, {"MerchantCap", "0", "refused"},
		{"MerchantCap", "101", "refused"},
		{"Memo", "off", "looser"}, {"Memo", "on", "tighter"}, {"Memo", "maybe", "refused"},
		{"RefillToken", "1,2,3", "looser"}, {"RefillToken", "1,2,2", "tighter"}, {"RefillToken", "1,2,0", "looser"},
		{"RefillToken", "1,0,3", "refused"}, {"RefillToken", "1,2,1", "refused"},
		{"RefillToken", "", "tighter"}, {"RefillEther", "1,2", "refused"}, {"RefillEther", "2,2,2", "looser"}, {"Nonsense", "1", "refused"},
	} {
		next, err := settings.Payments.Set(s, step.name, step.value)
		if err != nil || step.want == "refused" {
			if err == nil || step.want != "refused" || next != s {
				t.Errorf("%s=%s: error %v, want %s and no change", step.name, step.value, err, step.want)
			}
			continue
		}
		changes := settings.Payments.Diff(s, next)
		if len(changes) != 1 || changes[0].To != step.value || changes[0].Name != step.name || changes[0].Loosens != (step.want == "looser") {
			t.Errorf("%s=%s: changes %+v, want one change, %s", step.name, step.value, changes, step.want)
		}
		s = next
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	stamp := settings.Stamp{Version: 7, Needs: settings.Code, At: time.Unix(1, 0), Who: "ada", Why: "test"}
	s := settings.Default(rail)
	s.Stamp = stamp
	whole := settings.Payments.Encode(s)
	if got, err := settings.Payments.Decode(stamp, whole); err != nil || got != s {
		t.Errorf("decoded %+v, %v; want %+v", got, err, s)
	}
	damage := func(change func(*settings.Stamp, map[string]string), want error) {
		t.Helper()
		stamp, texts := stamp, maps.Clone(whole)
		change(&stamp, texts)
		if got, err := settings.Payments.Decode(stamp, texts); !errors.Is(err, want) || got != (settings.Settings{}) {
			t.Errorf("decoded %+v, %v; want %v", got, err, want)
		}
	}
	for name := range whole {
		damage(func(_ *settings.Stamp, texts map[string]string) { delete(texts, name) }, settings.ErrDamaged)
		damage(func(_ *settings.Stamp, texts map[string]string) { texts[name] = "?" }, settings.ErrDamaged)
	}
	damage(func(_ *settings.Stamp, texts map[string]string) { texts["More"] = "1" }, settings.ErrDamaged)
	damage(func(_ *settings.Stamp, texts map[string]string) { texts["TokenAddress"] = (token.Address{}).String() }, settings.ErrDamaged)
	damage(func(s *settings.Stamp, _ map[string]string) { s.Version = 0 }, settings.ErrDamaged)
	damage(func(s *settings.Stamp, texts map[string]string) { s.Needs++; clear(texts) }, settings.ErrNewer)
	damage(func(_ *settings.Stamp, texts map[string]string) {
		texts["AmountMinimum"], texts["AmountMaximum"] = "10", "9"
	}, settings.ErrDamaged)
}

func TestUnset(t *testing.T) {
	s := settings.Default(rail)
	s, _ = settings.Payments.Set(s, "AmountMaximum", "5")
	if diff := cmp.Diff([]string{"AmountMinimum", "DailyLimit"}, s.Unset()); diff != "" {
		t.Error(diff)
	}
}

// TestCached: a value is good for less than MaxAge, counted from before it was read.
func TestCached(t *testing.T) {
	began := time.Unix(1000, 0)
	reads, broken := 0, errors.New("no answer")
	var cached settings.Cached[int]
	get := func(after time.Duration, fails error) (int, error) {
		return cached.Get(t.Context(), began.Add(after), func(context.Context) (int, error) {
			reads++
			return reads, fails
		})
	}
	for _, step := range []struct {
		after time.Duration
		fails error
		want  int
	}{
		{0, broken, 0}, {0, nil, 2}, {settings.MaxAge - 1, broken, 2}, {settings.MaxAge, broken, 0},
		{settings.MaxAge, nil, 4}, {settings.MaxAge - 1, nil, 5}, // the clock went back
	} {
		if got, _ := get(step.after, step.fails); got != step.want {
			t.Errorf("after %s: %d, want %d", step.after, got, step.want)
		}
	}
}
