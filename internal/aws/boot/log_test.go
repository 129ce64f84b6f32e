package boot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestLinesSayWhoseTheyAre: the lines that a handler logs, also on a context
// that outlives the request, lead back to the request and its merchant.
func TestLinesSayWhoseTheyAre(t *testing.T) {
	var out bytes.Buffer
	plain := slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(boot.Identified(plain, "send-payment"))
	send(t, func(_ http.ResponseWriter, r *http.Request) {
		log.InfoContext(context.WithoutCancel(r.Context()), "committed", "payment", "pay_1")
		log.With("part", "x").InfoContext(r.Context(), "with")
		log.InfoContext(r.Context(), "own", "request_id", "client-7", "merchant", "mer_2")
		log.InfoContext(context.Background(), "outside")
		settings.Note(context.Background(), log, "payments", 7, nil)
	}, event(nil))
	want := []map[string]any{
		{"msg": "committed", "payment": "pay_1", "request_id": "request-1", "merchant": "mer_1"},
		{"msg": "with", "part": "x", "request_id": "request-1", "merchant": "mer_1"},
		{"msg": "own", "request_id": "client-7", "merchant": "mer_2"},
		{"msg": "outside"},
		{"msg": settings.ReadLine, "settings": "payments", "settings_version": 7.0, "function": "send-payment"},
	}
	var got []map[string]any
	for lines := json.NewDecoder(&out); lines.More(); {
		var line map[string]any
		must.OK(t, lines.Decode(&line))
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
