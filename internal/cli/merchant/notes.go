package merchant

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// notes are a directory with a note for each amount and recipient that an agent was about to pay in the last two days.
type notes string

// sent is a note's record of the last payment; an empty intent means none.
type sent struct{ Intent, Reference string }

// A note is a locked file with the last payment; its modification time is that of the last request, or of its end.
// After a crash, the next process reads which payment may still be made. The lock lets one process pay at a time.
type note struct{ *os.File }

// lock opens the note of an amount and a recipient, and waits for the process that has it.
func (n notes) lock(ctx context.Context, o remit.Order) (*note, error) {
	if err := n.sweep(); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%x.note", sha256.Sum256([]byte(strings.ToLower(o.To)+"\x00"+string(o.Amount))))
	for {
		held, err := try(filepath.Join(string(n), name))
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return held, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("a payment of this amount to this address is under way in another call: %w", err)
		}
	}
}

// sweep deletes the notes that are too old to matter.
func (n notes) sweep() error {
	files, err := filepath.Glob(filepath.Join(string(n), "*.note"))
	for _, f := range files {
		if held, busy := try(f); busy == nil {
			if info, unread := held.Stat(); unread == nil && time.Since(info.ModTime()) > 2*lookBack {
				err = errors.Join(err, os.Remove(f))
			}
			held.unlock()
		}
	}
	return err
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

// read returns the last payment, and the time since then, which begins anew if the clock was set back.
func (n *note) read() (last sent, age time.Duration, err error) {
	info, err := n.Stat()
	if err != nil {
		return sent{}, 0, err
	}
	err = json.NewDecoder(io.NewSectionReader(n, 0, 1<<30)).Decode(&last) // an earlier, longer one may follow it
	if err != nil && !errors.Is(err, io.EOF) {
		return sent{}, 0, fmt.Errorf("%s is damaged; delete it a day after the last payment of it: %w", n.Name(), err)
	}
	if age = time.Since(info.ModTime()); age < 0 {
		return last, 0, n.touch()
	}
	return last, age, nil
}

func (n *note) write(last sent) error {
	text, _ := json.Marshal(last) // of strings alone
	_, err := n.WriteAt(append(text, '\n'), 0)
	return errors.Join(err, n.touch(), n.Sync())
}

func (n *note) touch() error {
	return os.Chtimes(n.Name(), time.Time{}, time.Now())
}

// touching returns a context in which each request renews a file's time just before it leaves.
func touching(ctx context.Context, file string) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		_ = os.Chtimes(file, time.Time{}, time.Now())
	}})
}
