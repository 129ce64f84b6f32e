package dynamotest_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func TestClientReachesOneSharedDatabase(t *testing.T) {
	if first, second := dynamotest.Start(t), dynamotest.Start(t); first != second {
		t.Errorf("two databases in one test binary: %s and %s", first, second)
	}
	must.Get(dynamotest.Client(t).ListTables(t.Context(), &dynamodb.ListTablesInput{}))(t)
}

func TestClear(t *testing.T) {
	t.Run("a test", func(t *testing.T) {
		dynamotest.Clear(t)
		must.Get(dynamotest.Client(t).CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("one"), BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		}))(t)
	})
	if left, err := dynamotest.Client(t).ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil || len(left.TableNames) > 0 {
		t.Errorf("%v, left are %v", err, left.TableNames)
	}
}

// TestAKilledTestBinaryLeavesNoJava runs this binary once more, kills it the
// way `go test -timeout` and an impatient person do, and waits for the port to
// be let go, and for the files to be gone.
func TestAKilledTestBinaryLeavesNoJava(t *testing.T) {
	if os.Getenv("DYNAMOTEST_HOLD") != "" {
		_, _ = os.Stdout.WriteString("endpoint " + dynamotest.Start(t) + "\n")
		select {}
	}
	dynamotest.Start(t) // or this machine has none
	child := exec.Command(os.Args[0], "-test.run=^TestAKilledTestBinaryLeavesNoJava$")
	files := t.TempDir()
	child.Env = append(os.Environ(), "DYNAMOTEST_HOLD=1", "REMIT_TEST_DYNAMODB=", "TMPDIR="+files)
	output := must.Get(child.StdoutPipe())(t)
	must.OK(t, child.Start())
	var address string
	for lines := bufio.NewScanner(output); address == "" && lines.Scan(); {
		address, _ = strings.CutPrefix(lines.Text(), "endpoint http://")
	}
	must.OK(t, child.Process.Kill())
	_ = child.Wait()
	if address == "" {
		t.Fatal("the child never said where its database listens")
	}
	var left []os.DirEntry
	for range 500 {
		c, err := net.Dial("tcp", address)
		if left = must.Get(os.ReadDir(files))(t); err != nil && len(left) == 0 {
			return
		}
		if err == nil {
			_ = c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("after its test binary was killed, DynamoDB Local still listens at %s or has left %v", address, left)
}
