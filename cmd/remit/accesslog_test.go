package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAccessLogShowsPathsEscaped: what a stranger asks for must not steer the
// terminal of whoever reads the log.
func TestAccessLogShowsPathsEscaped(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.Path = "/\x1b[2J\u009b\x00"
	accessLog(http.NotFoundHandler(), out, time.Now).ServeHTTP(httptest.NewRecorder(), r)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), `"path":"/%1B%5B2J%C2%9B%00"`) || !strings.Contains(string(log), `"status":404`) {
		t.Errorf("logged %s", log)
	}
}
