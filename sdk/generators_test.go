package sdk_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

var slow = flag.Bool("slow", false, "also the generators of TestGenerators that take minutes")

// generators make clients of openapi.json, each in a directory of its own with the program of testdata/generators/NAME.
// Both lines are of bash: one that compiles client and program, and one that runs it, "" for none.
var generators = []struct {
	name, version string
	slow          bool
	compile, run  string
}{
	{"oapi-codegen", "v2.8.2", false,
		`mkdir gen && $BIN/oapi-codegen -generate types,client -package gen -o gen/gen.go openapi.json && go build -o main .`, "./main"},
	{"openapi-typescript", "7.13.0", false, `node node_modules/openapi-typescript/bin/cli.js openapi.json -o openapi.d.ts &&
		node node_modules/typescript/bin/tsc --strict --target es2022 --module commonjs --types node main.ts`, "node main.js"},
	{"openapi-python-client", "0.29.1", false, `PATH=$PY:$PATH openapi-python-client generate --path openapi.json --output-path gen --meta none &&
		$PY/python -m compileall -q gen`, "$PY/python main.py"},
	{"openapi-generator-go", "7.26.0", false, `$PY/openapi-generator-cli generate -i openapi.json -g go -o gen --package-name gen &&
		rm -r gen/go.* gen/test && go build -o main .`, "./main"},
	{"openapi-generator-java", "7.26.0", true, `$PY/openapi-generator-cli generate -i openapi.json -g java --library native -o gen &&
		mvn -q -B -f gen/pom.xml dependency:copy-dependencies &&
		javac -nowarn -cp 'gen/target/dependency/*' -d out $(find gen/src/main -name '*.java') Main.java`,
		"java -cp 'out:gen/target/dependency/*' Main"},
	{"openapi-generator-csharp", "7.26.0", true, `$PY/openapi-generator-cli generate -i openapi.json -g csharp -o gen`, ""},
}

// TestGenerators holds the table of docs/clients.md: a client that is generated from the file as it is served pays
// 5,000 of a token with 6 decimals, and reads an amount of one with 18.
func TestGenerators(t *testing.T) {
	t.Parallel()
	node := filepath.Dir(tooltest.Program(t, "Node.js", "node"))
	modules := tooltest.Path(t, "openapi-typescript", ".cache/sdk-node/node_modules")
	oapi := tooltest.Path(t, "oapi-codegen", ".cache/bin/oapi-codegen")
	python := tooltest.Path(t, "the other generators", ".cache/generators/bin/python")
	_, api := localtest.Local(t, io.Discard, remitPath)
	served := must.Get(api.Call(t.Context(), "GET", "/openapi.json", ""))(t)
	front := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(api.URL))(t))
	front.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if r.Request.Method == http.MethodGet { // as if the token had 18 decimals
			body = bytes.ReplaceAll(body, []byte("5000000000"), []byte("123456789012345678901"))
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	page := string(must.Get(os.ReadFile("../docs/clients.md"))(t))
	for _, g := range generators {
		if g.slow && !*slow {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			at := language{g.name, nil, t.TempDir(), []string{"GOWORK=off",
				"GOFLAGS=-mod=mod", "CGO_ENABLED=0", "BIN=" + filepath.Dir(oapi), "PY=" + filepath.Dir(python),
				"PATH=" + node + ":" + os.Getenv("PATH"), "REMIT_URL=" + server.URL, "REMIT_API_KEY=" + api.Key}}
			must.OK(t, os.WriteFile(filepath.Join(at.dir, "openapi.json"), served.Body, 0o600))
			must.OK(t, os.Symlink(modules, filepath.Join(at.dir, "node_modules")))
			if from := "testdata/generators/" + g.name; g.run != "" {
				must.OK(t, os.CopyFS(at.dir, os.DirFS(from)))
			}
			compiled, paid := "no", "no"
			if run(t, at, "bash", "-c", g.compile); g.run != "" && !t.Failed() {
				compiled = "yes"
				if printed := run(t, at, "bash", "-c", g.run); strings.TrimSpace(printed) == "5000000000 123456789012345678901" {
					paid = "yes"
				}
			}
			if row := "| " + strings.Join([]string{g.name, g.version, compiled, paid}, " | ") + " |"; !strings.Contains(page, row) {
				t.Errorf("docs/clients.md has no row %s", row)
			}
		})
	}
}
