package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/internal/settings"
	"remit/internal/token"
)

// TestSettingsTakeEffect: requests that arrive 30 seconds after a change are judged by it,
// in the warm processes of every function that settings concern. Nothing is restarted.
func TestSettingsTakeEffect(t *testing.T) {
	s := start(t)
	m := newMerchant(t, s)
	const to = "0x5e77165e77165e77165e77165e77165e77165e77"
	var entries atomic.Uint64
	asks := map[string]func(m merchant) bool{ // each reports whether the answer is by the new settings
		"send-payment": func(m merchant) bool {
			return m.call("POST", "/send-payment", map[string]any{"to": to, "amount": 5}).status != 201
		},
		"send-payments": func(m merchant) bool {
			return m.call("POST", "/send-payments", map[string]any{"payments": []any{map[string]any{"to": to, "amount": 5}, map[string]any{"to": to, "amount": 6}}}).status != 201
		},
		"create-api-key": func(m merchant) bool {
			m.key = ""
			return m.call("POST", "/create-api-key", map[string]any{"merchant_name": "late"}).status != 201
		},
		"create-recipient": func(m merchant) bool {
			address := fmt.Sprintf("0x5e%038x", entries.Add(1))
			a := m.call("POST", "/recipients", map[string]any{"address": address}).want(t, 201)
			created, _ := time.Parse(time.RFC3339, a.get("created_at"))
			active, _ := time.Parse(time.RFC3339, a.get("active_at"))
			return active.Sub(created) >= time.Hour
		},
	}
	for name, ask := range asks {
		if ask(m) {
			t.Fatalf("%s refuses before the change", name)
		}
	}
	change := func(maximum uint64, public bool, hold time.Duration) {
		if err := s.Set(t.Context(), func(v *settings.Settings, k *settings.Keys) {
			v.Maximum, k.Public, k.Hold = token.Units(maximum), public, hold
		}); err != nil {
			t.Fatal(err)
		}
	}
	change(4, false, time.Hour)
	set := time.Now()
	defer change(1_000_000_000, true, 2*time.Second)
	var clients sync.WaitGroup
	for name, ask := range asks {
		for range 2 {
			clients.Go(func() {
				worst := time.Duration(0)
				for time.Since(set) < settings.MaxAge+10*time.Second {
					began := time.Since(set)
					if !ask(m) {
						worst = began
					}
					time.Sleep(500 * time.Millisecond)
				}
				t.Logf("%s: a request by the old settings came %s after the change at the latest", name, worst)
				if worst >= settings.MaxAge {
					t.Errorf("%s judged a request by the old settings that came %s after the change", name, worst)
				}
			})
		}
	}
	clients.Wait()
}
