package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"
)

// isTerminal reports whether out is a terminal, at which a person reads.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// accessLog writes a line for every request that next has answered: columns to a
// terminal, JSON to anything else. The value of a request's header is never
// written.
func accessLog(next http.Handler, out io.Writer, now func() time.Time) http.Handler {
	write := columns(out)
	if !isTerminal(out) {
		write = objects(out)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		write(r.Context(), line{began, r.Method, r.URL.EscapedPath(), seen.status, now().Sub(began), seen.Header().Get("X-Request-Id")})
	})
}

// A line is one answered request.
type line struct {
	at      time.Time
	method  string
	path    string // escaped: it is shown on a terminal
	status  int
	took    time.Duration
	request string
}

func columns(out io.Writer) func(context.Context, line) {
	var mu sync.Mutex
	return func(_ context.Context, l line) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(out, "%s  %d  %-4s %-40s %7.1f ms\n", l.at.Format(time.TimeOnly), l.status, l.method, l.path, float64(l.took.Microseconds())/1000)
	}
}

func objects(out io.Writer) func(context.Context, line) {
	log := slog.New(slog.NewJSONHandler(out, nil))
	return func(ctx context.Context, l line) {
		log.LogAttrs(ctx, slog.LevelInfo, "request",
			slog.String("method", l.method), slog.String("path", l.path), slog.Int("status", l.status),
			slog.Float64("duration_ms", float64(l.took.Microseconds())/1000), slog.String("request_id", l.request))
	}
}

// statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
