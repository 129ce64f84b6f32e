package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Jobs remembers the webhook jobs of a stack on one machine, whose queue would
// otherwise die with its process. On AWS the queue is SQS and nothing uses it.
type Jobs struct {
	db    *dynamodb.Client
	table string
}

// NewJobs returns the jobs remembered in the table Webhooks.
func NewJobs(db *dynamodb.Client, table string) *Jobs { return &Jobs{db, table} }

// jobsPK is the one partition of all jobs: one process reads it once.
const jobsPK = "jobs"

// Add remembers a job until Done. Adding it again changes when it is due, and
// so which Done ends it.
func (s *Jobs) Add(ctx context.Context, job string, due time.Time) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: pair(jobsPK, job),
		UpdateExpression:          aws.String("SET due = :due"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":due": instant(due)},
	})
	if err != nil {
		return fmt.Errorf("adding job %s: %w", job, err)
	}
	return nil
}

// Done forgets a job that was due, unless it was added again since for another
// time.
func (s *Jobs) Done(ctx context.Context, job string, due time.Time) error {
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: pair(jobsPK, job), ConditionExpression: aws.String("due = :due"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":due": instant(due)},
	})
	if _, stale := errors.AsType[*types.ConditionalCheckFailedException](err); err != nil && !stale {
		return fmt.Errorf("ending job %s: %w", job, err)
	}
	return nil
}

// All returns every job that is not done, and when it is due.
func (s *Jobs) All(ctx context.Context) (map[string]time.Time, error) {
	jobs := map[string]time.Time{}
	pages := dynamodb.NewQueryPaginator(s.db, &dynamodb.QueryInput{
		TableName: &s.table, KeyConditionExpression: aws.String("pk = :pk"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": text(jobsPK)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing jobs: %w", err)
		}
		for _, item := range page.Items {
			job, ok := item[attrSK].(*types.AttributeValueMemberS)
			due, dated := item["due"].(*types.AttributeValueMemberS)
			if !ok || !dated {
				continue
			}
			if at, err := parseInstant(due.Value); err == nil {
				jobs[job.Value] = at
			}
		}
	}
	return jobs, nil
}
