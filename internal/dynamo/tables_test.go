package dynamo_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"remit/internal/dynamo/dynamotest"
)

// A shape holds the keys and indexes of a table.
type shape struct {
	KeySchema              []keyElement `yaml:"KeySchema"`
	GlobalSecondaryIndexes []struct {
		IndexName  string       `yaml:"IndexName"`
		KeySchema  []keyElement `yaml:"KeySchema"`
		Projection struct {
			ProjectionType   string   `yaml:"ProjectionType"`
			NonKeyAttributes []string `yaml:"NonKeyAttributes"`
		} `yaml:"Projection"`
	} `yaml:"GlobalSecondaryIndexes"`
}

type keyElement struct {
	AttributeName string `yaml:"AttributeName"`
	KeyType       string `yaml:"KeyType"`
}

// TestTemplateDeclaresTheSameTables compares the tables that CreateTables makes
// with those of template.yaml.
func TestTemplateDeclaresTheSameTables(t *testing.T) {
	db := dynamotest.Client(t)
	tables := tables(t, db)
	declared := declaredTables(t)
	for logical, name := range map[string]string{"ApiKeysTable": tables.APIKeys, "PaymentsTable": tables.Payments, "WebhooksTable": tables.Webhooks} {
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			t.Fatal(err)
		}
		want, ok := declared[logical]
		if !ok {
			t.Errorf("template.yaml has no %s", logical)
			continue
		}
		if diff := cmp.Diff(summary(want), described(out.Table)); diff != "" {
			t.Errorf("%s (-template.yaml +CreateTables):\n%s", logical, diff)
		}
	}
}

func declaredTables(t *testing.T) map[string]shape {
	t.Helper()
	text, err := os.ReadFile("../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	tables := map[string]shape{}
	for name, r := range template.Resources {
		if r.Type != "AWS::DynamoDB::Table" {
			continue
		}
		var s shape
		if err := r.Properties.Decode(&s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tables[name] = s
	}
	return tables
}

// summary and described write a table's keys and indexes in the same words.

func summary(s shape) []string {
	words := []string{"keys " + keys(s.KeySchema)}
	for _, i := range s.GlobalSecondaryIndexes {
		words = append(words, "index "+i.IndexName+" "+keys(i.KeySchema)+" "+i.Projection.ProjectionType+" "+strings.Join(i.Projection.NonKeyAttributes, " "))
	}
	return words
}

func keys(schema []keyElement) string {
	var words []string
	for _, k := range schema {
		words = append(words, k.KeyType+" "+k.AttributeName)
	}
	return strings.Join(words, ", ")
}

func described(d *types.TableDescription) []string {
	var s shape
	s.KeySchema = elements(d.KeySchema)
	words := summary(s)
	for _, i := range d.GlobalSecondaryIndexes {
		included := slices.Clone(i.Projection.NonKeyAttributes)
		words = append(words, "index "+*i.IndexName+" "+keys(elements(i.KeySchema))+" "+string(i.Projection.ProjectionType)+" "+strings.Join(included, " "))
	}
	return words
}

func elements(schema []types.KeySchemaElement) []keyElement {
	var list []keyElement
	for _, k := range schema {
		list = append(list, keyElement{*k.AttributeName, string(k.KeyType)})
	}
	return list
}
