package dynamotest

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/proof/must"
)

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
