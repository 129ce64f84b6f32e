package webhook

import (
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// newID returns prefix and 96 random bits in hex.
func newID(prefix string, random io.Reader) (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("making an id: %w", err)
	}
	return prefix + hex.EncodeToString(b[:]), nil
}

// instant returns the present in UTC and whole milliseconds, as it is stored
// and shown.
func instant(now func() time.Time) time.Time { return now().UTC().Truncate(time.Millisecond) }
