package e2e_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestSizes holds the functions to a size that starts and ships quickly.
func TestSizes(t *testing.T) {
	const most = 12_500_000
	found, err := filepath.Glob(filepath.Join(start(t).Build(), "*Function", "bootstrap"))
	if err != nil || len(found) != 25 {
		t.Fatalf("%d functions are built: %v", len(found), err)
	}
	for _, bootstrap := range found {
		if info, err := os.Stat(bootstrap); err != nil || info.Size() > most {
			t.Errorf("%s has more than %d bytes: %+v, %v", bootstrap, most, info, err)
		}
	}
}

// archive returns a zip file with the bootstrap, which may be executed.
func archive(t *testing.T, bootstrap []byte) []byte {
	t.Helper()
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Store}
	header.SetMode(0o755)
	f := must.Get(w.CreateHeader(header))(t)
	must.Get(f.Write(bootstrap))(t)
	must.OK(t, w.Close())
	return zipped.Bytes()
}
