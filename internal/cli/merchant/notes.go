package merchant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
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
// A file's modification time is when the last request was made. After a crash, the next process reads what may still be
// paid; the file's lock lets one process pay at a time.
type notes string

// An entry is the content of a note.
type entry struct {
	Intent string
	Order  remit.Order
}

// openNotes makes the directory, and deletes the files that are too old to matter.
func openNotes(dir string) (notes, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("notes of payments: %w; name a directory of yours with --state", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.note"))
	for _, f := range files {
		if held, busy := try(f); busy == nil {
			if _, age, unread := held.read(); unread == nil && age > 2*lookBack {
				err = errors.Join(err, os.Remove(f))
			}
			held.unlock()
		}
	}
	return notes(dir), err
}

// A note is a locked file.
type note struct{ *os.File }

// lock opens the note of an amount and a recipient, and waits for the process that has it.
func (n notes) lock(ctx context.Context, o remit.Order) (*note, error) {
	sum := sha256.Sum256([]byte(strings.ToLower(o.To) + "\x00" + string(o.Amount)))
	for {
		held, err := try(filepath.Join(string(n), hex.EncodeToString(sum[:])+".note"))
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return held, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("a payment of this amount to this address is under way in another call: %w", err)
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

// read returns what was written last, zero for nothing, and the time since the last request. A clock that was set back makes it 0.
func (n *note) read() (e entry, age time.Duration, err error) {
	info, err := n.Stat()
	if err != nil {
		return e, 0, err
	}
	if age = time.Since(info.ModTime()); age < 0 {
		err, age = n.touch(), 0
	}
	_ = json.NewDecoder(io.NewSectionReader(n, 0, 1<<20)).Decode(&e) // of an empty file nothing; after an entry may be a rest
	return e, age, err
}

func (n *note) write(e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = n.WriteAt(append(text, '\n'), 0)
	return errors.Join(err, n.touch(), n.Sync())
}

func (n *note) touch() error {
	now := time.Now()
	return os.Chtimes(n.Name(), now, now)
}

type noted struct{}

// on returns a context whose POST requests renew the note's time.
func (n *note) on(ctx context.Context) context.Context { return context.WithValue(ctx, noted{}, n) }

// noting renews the time of the note in a request's context, before the request, when its bytes leave, and after it.
type noting struct{ http.RoundTripper }

func (t noting) RoundTrip(r *http.Request) (*http.Response, error) {
	n, is := r.Context().Value(noted{}).(*note)
	if !is || r.Method != http.MethodPost {
		return t.RoundTripper.RoundTrip(r)
	}
	if err := n.touch(); err != nil {
		return nil, fmt.Errorf("noting a payment before it is sent: %w", err)
	}
	leaves := &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { _ = n.touch() },
		WroteRequest: func(httptrace.WroteRequestInfo) { _ = n.touch() },
	}
	got, err := t.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), leaves)))
	_ = n.touch() // if it fails, the time is the one above
	return got, err
}
