package main

import (
	"crypto/rand"
	"log/slog"
	"net/http"

	"remit/internal/chain"
	"remit/internal/httpapi"
	"remit/internal/secrets"
	"remit/internal/token"
)

// A balance serves balances as the nodes have them that the RPC secret names
// at the moment.
type balance struct {
	network string
	coin    token.Token
	handler *secrets.Made[http.Handler]
}

// over returns the handler for these nodes. The newest block counts: a balance
// is shown, and nothing is decided by it.
func (b balance) over(_ uint64, nodes chain.Nodes) http.Handler {
	return httpapi.GetBalance(rand.Text, nodes, b.coin, b.network, chain.ConfirmationRule{})
}

// ServeHTTP implements http.Handler. Without nodes there is still an answer to
// every request that is wrong anyway, and a 503 to the others.
func (b balance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, err := b.handler.Get(r.Context())
	if err != nil {
		slog.ErrorContext(r.Context(), "no nodes", "err", err)
		handler = b.over(0, nil)
	}
	handler.ServeHTTP(w, r)
}
