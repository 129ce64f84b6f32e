package dynamo_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestTemplateDeclaresTheSameTables compares the tables that CreateTables makes with those of template.yaml.
func TestTemplateDeclaresTheSameTables(t *testing.T) {
	text := must.Get(os.ReadFile("../../../template.yaml"))(t)
	var template struct {
		Resources map[string]struct {
			Properties map[string]any `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	must.OK(t, yaml.Unmarshal(text, &template))
	db := dynamotest.Client(t)
	tables := tables(t, db)
	for logical, name := range map[string]string{"ApiKeysTable": tables.APIKeys, "PaymentsTable": tables.Payments,
		"WebhooksTable": tables.Webhooks} {
		out := must.Get(db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}))(t)
		if diff := cmp.Diff(shapeOf(t, template.Resources[logical].Properties), shapeOf(t, out.Table)); diff != "" {
			t.Errorf("%s (-template.yaml +CreateTables):\n%s", logical, diff)
		}
	}
}

// A shape holds the keys and indexes of a table.
type shape struct {
	KeySchema              []keyElement
	GlobalSecondaryIndexes []struct {
		IndexName  string
		KeySchema  []keyElement
		Projection struct {
			ProjectionType   string
			NonKeyAttributes []string
		}
	}
}

type keyElement struct{ AttributeName, KeyType string }

// shapeOf reads the shape of a table as template.yaml declares or DynamoDB describes it: both use the same names.
func shapeOf(t *testing.T, table any) (s shape) {
	t.Helper()
	text := must.Get(json.Marshal(table))(t)
	must.OK(t, json.Unmarshal(text, &s))
	return s
}
