package merchant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// lifetime is longer than the API works on a request: then one without an answer commits nothing more.
const lifetime = 35 * time.Second

// notes are a directory with a file for each amount and recipient that an agent was about to pay in the last day.
// It holds the Idempotency-Key; its time is that of the last request. So a process that starts after a crash
// knows what may still be paid, and of two processes one pays at a time.
type notes struct{ dir, url string }

// openNotes makes the directory, and deletes the files that are too old to matter.
func openNotes(dir, url string) (notes, error) {
	n := notes{dir, strings.TrimSuffix(url, "/")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return n, fmt.Errorf("notes of payments: %w; pass a directory of yours with --state", err)
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		at := filepath.Join(dir, f.Name())
		if info, gone := f.Info(); gone == nil && time.Since(info.ModTime()) > 2*lookBack && strings.HasSuffix(f.Name(), ".note") {
			if held, busy := try(at); busy == nil {
				err = errors.Join(err, os.Remove(at))
				held.unlock()
			}
		}
	}
	return n, err
}

// A note is a locked file.
type note struct{ *os.File }

// lock opens the note of an amount and a recipient, and waits for the process that has it.
func (n notes) lock(ctx context.Context, to string, amount remit.Amount) (*note, error) {
	sum := sha256.Sum256([]byte(n.url + "\x00" + strings.ToLower(to) + "\x00" + string(amount)))
	for {
		held, err := try(filepath.Join(n.dir, hex.EncodeToString(sum[:])+".note"))
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return held, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the same payment is under way in another call; nothing was sent, call again: %w", err)
		}
	}
}

// try opens and locks a file, or fails with EWOULDBLOCK.
func try(path string) (*note, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	mine, _ := f.Stat()
	if now, gone := os.Stat(path); err == nil && (gone != nil || !os.SameFile(mine, now)) {
		err = syscall.EWOULDBLOCK // deleted by the process that had it
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &note{f}, nil
}

func (n *note) unlock() { _ = n.Close() }

// read returns the key that was written last, "" for none, and the time since its last request.
func (n *note) read() (key string, since time.Duration, err error) {
	info, err := n.Stat()
	if err != nil {
		return "", 0, err
	}
	text, err := io.ReadAll(io.NewSectionReader(n, 0, 100))
	return string(text), time.Since(info.ModTime()), err
}

// write replaces the key; all keys have one length.
func (n *note) write(key string) error {
	_, err := n.WriteAt([]byte(key), 0)
	return errors.Join(err, n.Sync())
}

type noted struct{}

// on returns a context whose POST requests renew the note's time.
func (n *note) on(ctx context.Context) context.Context { return context.WithValue(ctx, noted{}, n) }

// noting renews the time of the note in a request's context.
type noting struct{ http.RoundTripper }

func (t noting) RoundTrip(r *http.Request) (*http.Response, error) {
	if n, is := r.Context().Value(noted{}).(*note); is && r.Method == http.MethodPost {
		now := time.Now()
		if err := os.Chtimes(n.Name(), now, now); err != nil {
			return nil, fmt.Errorf("noting a payment before it is sent: %w", err)
		}
	}
	return t.RoundTripper.RoundTrip(r)
}
