// Package dynamotest runs DynamoDB Local for tests. It makes no tables: each test makes tables under new names.
package dynamotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// started is the one process of this test binary. It is kept for the life of the
// binary, since DynamoDB Local ends when the pipe that it holds is closed.
var (
	start   sync.Once
	started *process
	failed  error
)

// Start returns the URL of a DynamoDB Local that all tests of this binary share. Each access key has its own tables
// there, so tests of one key need table names of their own. Start starts it on first use, in memory, on a free port. It
// ends with the test binary, even if that is killed. REMIT_TEST_DYNAMODB names a running DynamoDB Local to use instead.
//
// A machine without it skips the test, or fails it under CI (tooltest.Missing). Call it outside a synctest bubble.
func Start(t testing.TB) string {
	t.Helper()
	if running := os.Getenv("REMIT_TEST_DYNAMODB"); running != "" {
		if err := ready(t.Context(), running); err != nil {
			t.Fatalf("REMIT_TEST_DYNAMODB=%s: %v", running, err)
		}
		return running
	}
	const what = "DynamoDB Local"
	if runtime.GOOS == "linux" && runtime.GOARCH == "arm64" {
		tooltest.Missing(t, what, "it has no native library for arm64 Linux: run it elsewhere and name it in REMIT_TEST_DYNAMODB")
	}
	java, jars := tooltest.Program(t, what, "java"), filepath.Dir(tooltest.Path(t, what, ".cache/dynamodb/"+jar))
	start.Do(func() { started, failed = launch(java, jars) })
	if failed != nil {
		t.Fatalf("starting DynamoDB Local: %v", failed)
	}
	select {
	case <-started.ended:
		t.Fatalf("DynamoDB Local has ended; it printed:\n%s", started.printed.Bytes())
	default:
	}
	return started.endpoint
}

// Client returns a client of the DynamoDB Local that Start returns, with the access key
// of remit local, which is no secret: DynamoDB Local takes any made of letters and digits.
func Client(t testing.TB) *dynamodb.Client {
	t.Helper()
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(Start(t)),
		Region:       "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "remit", SecretAccessKey: "remit"}, nil
		}),
	})
}

// Clear deletes, when the test ends, the tables that were made since and that Client
// sees: the next test of this binary, or the same once more, begins without them.
func Clear(t testing.TB) {
	t.Helper()
	db, ctx := Client(t), context.WithoutCancel(t.Context())
	list := func() []string {
		tables, err := db.ListTables(ctx, &dynamodb.ListTablesInput{})
		if err != nil {
			t.Errorf("listing the tables of DynamoDB Local: %v", err)
			return nil
		}
		return tables.TableNames
	}
	before := list()
	t.Cleanup(func() {
		for _, name := range list() {
			if slices.Contains(before, name) {
				continue
			}
			if _, err := db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				t.Errorf("deleting table %s: %v", name, err)
			}
		}
	})
}

func launch(java, jars string) (p *process, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	// A port that is free when it is chosen may still be taken when Java binds it, by a program that asks for it.
	for range 3 {
		if p, err = run(ctx, java, jars); err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("running the jars of %s: %w", jars, err)
}

const (
	// jar is the file that shows that .cache/dynamodb is complete and current.
	jar = "DynamoDBLocal-2.6.1.jar"

	// startWithin is generous: a start takes under a second on two idle cores, but many binaries may start one at once.
	startWithin = 2 * time.Minute
)

// guard runs Java beside a shell that waits for the end of its own standard input, a pipe whose other end only the test
// binary holds. So the end of that binary, by SIGKILL too, is the end of Java. The shell lets go of the output, so that
// the end of the output means that Java has ended. A killed Java leaves the libraries that it has unpacked, so they
// have a directory that goes with it.
const guard = `tmp=$(mktemp -d)
java=$1; shift
"$java" -Djava.io.tmpdir="$tmp" "$@" </dev/null & exec >/dev/null 2>&1
trap : HUP INT TERM
read -r _
kill -9 $!
rm -rf "$tmp"`

// A process is a running DynamoDB Local. While it is reachable its pipe stays open, and while the pipe is open it runs.
type process struct {
	endpoint string
	hold     io.WriteCloser
	mark     net.PacketConn // of the port
	printed  bytes.Buffer
	ended    chan struct{}
}

// run starts Java and returns when it answers. An error means it is not running.
func run(ctx context.Context, java, jars string) (p *process, err error) {
	port, mark, err := FreePort()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = mark.Close()
		}
	}()
	// Most of a short life is class loading: the quick compiler and the serial collector halve its processor time.
	cmd := exec.Command("/bin/sh", "-c", guard, "guard", java, "-Xmx256m",
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.library.path="+jars, "-cp", filepath.Join(jars, "*"),
		"com.amazonaws.services.dynamodbv2.local.main.ServerRunner", "-inMemory", "-disableTelemetry", "-port", strconv.Itoa(port))
	p = &process{endpoint: "http://127.0.0.1:" + strconv.Itoa(port), ended: make(chan struct{}), mark: mark}
	if p.hold, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_, _ = io.CopyN(&p.printed, output, 8<<10)
		_, _ = io.Copy(io.Discard, output)
	}()
	if err := p.await(ctx); err != nil {
		_ = p.hold.Close()
		<-p.ended
		_ = cmd.Wait()
		return nil, fmt.Errorf("%w; it printed:\n%s", err, p.printed.Bytes())
	}
	return p, nil
}

// await returns nil once the process answers, or why it never will.
func (p *process) await(ctx context.Context) error {
	for {
		err := ready(ctx, p.endpoint)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("it ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("it did not answer within %v: %w", startWithin, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready returns nil if something speaks HTTP at endpoint.
func ready(ctx context.Context, endpoint string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// FreePort returns a port on which nothing listens, and a mark by which other test binaries know that it is taken: they
// start at the same time, and Java binds its port seconds later, a killed server again. The system gives no port below
// 32768 to others.
func FreePort() (port int, mark net.PacketConn, err error) {
	for range 100 {
		port = 10_000 + rand.IntN(22_000)
		at := "127.0.0.1:" + strconv.Itoa(port)
		if mark, err = net.ListenPacket("udp", at); err != nil {
			continue
		}
		l, busy := net.Listen("tcp", at)
		if busy == nil {
			return port, mark, l.Close()
		}
		err = errors.Join(busy, mark.Close())
	}
	return 0, nil, err
}

// An Image is a copy of the tables of remit local: every item, by table.
type Image map[string][]map[string]types.AttributeValue

// Read copies the tables.
func Read(t testing.TB) Image {
	t.Helper()
	db, image := Client(t), Image{}
	for _, name := range must.Get(db.ListTables(t.Context(), &dynamodb.ListTablesInput{}))(t).TableNames {
		if !strings.HasPrefix(name, "remit-") {
			continue
		}
		pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &name})
		for pages.HasMorePages() {
			image[name] = append(image[name], must.Get(pages.NextPage(t.Context()))(t).Items...)
		}
	}
	return image
}

// Restore takes the tables back to the copy, item by item: no process may use them meanwhile.
func (i Image) Restore(t testing.TB) {
	t.Helper()
	db := Client(t)
	for name, items := range Read(t) {
		schema := must.Get(db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}))(t).Table.KeySchema
		for _, item := range items {
			key := map[string]types.AttributeValue{}
			for _, part := range schema {
				key[*part.AttributeName] = item[*part.AttributeName]
			}
			must.Get(db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: key}))(t)
		}
		for _, item := range i[name] {
			must.Get(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item}))(t)
		}
	}
}
