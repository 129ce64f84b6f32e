package settings_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

var rail = settings.Rail{ChainID: 1, Token: token.Token{Contract: token.Address{1}, Symbol: "USDC", Decimals: 6}, Network: "devnet"}

// TestValues sets one value after another: each is tighter, looser, or refused. No setting is left out.
func TestValues(t *testing.T) {
	s := settings.Default(rail)
	page, untried := must.Get(os.ReadFile("../../../docs/parameters.md"))(t), settings.Payments.Encode(s)
	for name := range untried {
		if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`").Match(page) {
			t.Errorf("docs/parameters.md: the table of settings lacks %s", name)
		}
	}
	for _, step := range tabletest.Read(t, nil) {
		name, value, _ := strings.Cut(step.Name, "=")
		delete(untried, name)
		next, err := settings.Payments.Set(s, name, value)
		if err != nil || step.Want == "refused" {
			if err == nil || step.Want != "refused" || next != s {
				t.Errorf("%s=%s: error %v, want %s and no change", name, value, err, step.Want)
			}
			continue
		}
		changes := settings.Payments.Diff(s, next)
		if len(changes) != 1 || changes[0].To != value || changes[0].Name != name || changes[0].Loosens != (step.Want == "looser") {
			t.Errorf("%s=%s: changes %+v, want one change, %s", name, value, changes, step.Want)
		}
		s = next
	}
	if len(untried) > 0 {
		t.Errorf("testdata/TestValues.txt has no row of %v", slices.Sorted(maps.Keys(untried)))
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
	frozen := string(must.Get(os.ReadFile("../../aws/dynamo/testdata/frozen/0.1.0.items"))(t))
	for name := range whole {
		damage(func(_ *settings.Stamp, texts map[string]string) { texts[name] = "?" }, settings.ErrDamaged)
		if strings.Contains(frozen, `"`+name+`":`) {
			damage(func(_ *settings.Stamp, texts map[string]string) { delete(texts, name) }, settings.ErrDamaged)
			continue
		}
		older := maps.Clone(whole)
		if delete(older, name); must.Err(settings.Payments.Decode(stamp, older)) != nil {
			t.Errorf("the settings that 0.1.0 stored lack %s, and stop every payment: have Decode in table.go give it a value", name)
		}
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
