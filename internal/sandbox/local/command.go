// Package local runs the whole of Remit in one process, for people who try it out and for tests: the API, settlement,
// webhooks and, unless an outside node is named, a chain. It wires the same parts as the functions on AWS, and of AWS
// it knows only DynamoDB's interface.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// Command is `remit local`.
type Command struct {
	Settings

	// Operate takes operators' commands for the stack that serves at an address,
	// until its result is closed. Nil means no commands.
	Operate func(address string, stack deployed.Local) (io.Closer, error) `kong:"-"`
}

// shutdownWait is how long requests under way may take when the server is stopped.
const shutdownWait = 10 * time.Second

// Run serves the stack until ctx ends, then lets requests under way finish. It writes the welcome and the access log
// to out, from several goroutines at once, and logs to standard error.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	log := newLogger(os.Stderr, c.LogLevel)
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return listenError("--listen", err)
	}
	stack, err := newProcess(ctx, &c.Settings, "http://"+listener.Addr().String(), log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler:           accessLog(toTheEnd(stack.handler), out, c.LogLevel, time.Now),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		// OPTIONS * is a route that does not exist, like any other.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if stack.page != nil { // whose streams of events end by themselves
		server.RegisterOnShutdown(stack.page.Stop)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stack.start()
	if c.Operate != nil {
		commands, err := c.Operate(listener.Addr().String(), stack.parts())
		if err != nil {
			return errors.Join(err, server.Close(), stack.stop())
		}
		defer func() { _ = commands.Close() }()
	}
	welcome(ctx, out, stack)
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer cancel()
	err = errors.Join(err, server.Shutdown(stopping), stack.stop())
	if c.DynamoDB == "" {
		fmt.Fprintln(out, "\nStopped; its tables (payments, keys, webhooks) were in memory and are gone.")
	} else {
		fmt.Fprintln(out, "\nStopped; its tables are kept in DynamoDB at "+c.DynamoDB+".")
	}
	return err
}

// toTheEnd lets next finish even if the client has gone, as a Lambda function does.
// net/http treats a client that closed its sending side as gone, and ends the
// request's context: the cancelled calls would look like failures of nodes and tables.
func toTheEnd(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

func newLogger(out *os.File, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// accessLog writes a line for each request that next has answered, from level warn on without GETs: columns to a
// terminal, JSON to anything else. It writes no header's value, and escapes paths: they must not control a terminal.
func accessLog(next http.Handler, out io.Writer, level slog.Level, now func() time.Time) http.Handler {
	columns, objects := log.New(out, "", 0), slog.New(slog.NewJSONHandler(out, nil))
	terminal := isTerminal(out)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := now()
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		switch path, took := r.URL.EscapedPath(), float64(now().Sub(began).Microseconds())/1000; {
		case level > slog.LevelInfo && r.Method == http.MethodGet:
		case terminal:
			columns.Printf("%s %d %-4s %-40s %7.1f ms", began.Format(time.TimeOnly), seen.status, r.Method, path, took)
		default:
			objects.LogAttrs(r.Context(), slog.LevelInfo, "request",
				slog.String("method", r.Method), slog.String("path", path), slog.Int("status", seen.status),
				slog.Float64("duration_ms", took), slog.String("request_id", seen.Header().Get("X-Request-Id")))
		}
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
