package boot

import (
	"context"
	"log/slog"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// Identified returns a handler that adds to every line written under a request's context who made the request and
// under which id API Gateway knows it, "merchant" and "request_id". A line that names its request itself is left as
// it is. Keys are never written, not even their ids.
func Identified(h slog.Handler) slog.Handler { return identified{h} }

type identified struct{ slog.Handler }

func (h identified) Handle(ctx context.Context, r slog.Record) error {
	named := map[string]bool{}
	r.Attrs(func(a slog.Attr) bool { named[a.Key] = true; return true })
	if id, ok := ctx.Value(requestIDKey{}).(string); ok && !named["request_id"] {
		r.AddAttrs(slog.String("request_id", id))
	}
	if who, ok := apikey.PrincipalFrom(ctx); ok && !named["merchant"] {
		r.AddAttrs(slog.String("merchant", who.MerchantID))
	}
	return h.Handler.Handle(ctx, r)
}

func (h identified) WithAttrs(attrs []slog.Attr) slog.Handler {
	return identified{h.Handler.WithAttrs(attrs)}
}

func (h identified) WithGroup(name string) slog.Handler { return identified{h.Handler.WithGroup(name)} }

type requestIDKey struct{}
