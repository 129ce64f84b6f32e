package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// zips makes the SAM CLI's own archive of each directory and prints its SHA-256.
const zips = `
import hashlib, sys
from samcli.lib.package.utils import zip_folder, make_zip_with_lambda_permissions
for folder in sys.argv[1:]:
    with zip_folder(folder, zip_method=make_zip_with_lambda_permissions) as (name, _):
        print(hashlib.sha256(open(name, "rb").read()).hexdigest())
`

// TestArchivesAreReproducible: a deployment uploads the archive that the SAM CLI
// makes of a build, and CloudFormation takes another archive for other code.
// The same binary, built at another time elsewhere, has to be the same archive.
func TestArchivesAreReproducible(t *testing.T) {
	python := tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/python")
	var dirs []string
	for _, built := range []time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_800_000_000, 0)} {
		dir := t.TempDir()
		file := filepath.Join(dir, "bootstrap")
		must.OK(t, os.WriteFile(file, []byte("\x7fELF the same bytes"), 0o755))
		must.OK(t, os.Chtimes(file, built, built))
		dirs = append(dirs, dir)
	}
	out := must.Get(exec.CommandContext(t.Context(), python, append([]string{"-c", zips}, dirs...)...).Output())(t)
	if len(out) != 2*65 || string(out[:65]) != string(out[65:]) {
		t.Errorf("the archives of two builds are\n%s", out)
	}
}
