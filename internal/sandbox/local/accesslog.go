package local

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"golang.org/x/term"
)

// isTerminal reports whether out is a terminal, at which a person reads.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// accessLog writes a line for every request that next has answered: columns to a
// terminal, JSON to anything else. The value of a request's header is never
// written, and a path is escaped, since it must not control a terminal.
func accessLog(next http.Handler, out io.Writer, now func() time.Time) http.Handler {
	columns, objects := log.New(out, "", 0), slog.New(slog.NewJSONHandler(out, nil))
	terminal := isTerminal(out)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		path, took := r.URL.EscapedPath(), float64(now().Sub(began).Microseconds())/1000
		if terminal {
			columns.Printf("%s  %d  %-4s %-40s %7.1f ms", began.Format(time.TimeOnly), seen.status, r.Method, path, took)
			return
		}
		objects.LogAttrs(r.Context(), slog.LevelInfo, "request",
			slog.String("method", r.Method), slog.String("path", path), slog.Int("status", seen.status),
			slog.Float64("duration_ms", took), slog.String("request_id", seen.Header().Get("X-Request-Id")))
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
