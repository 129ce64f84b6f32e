package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"remit/internal/chain"
	"remit/internal/chains"
	"remit/internal/dynamo"
)

// isClosed finds the parameters that leave a stack with real money open.
func (a *account) isClosed(context.Context) (string, error) {
	p := a.parameters
	id, _ := strconv.ParseUint(p["ChainId"], 10, 64)
	err := errors.Join(chains.Deployment{
		Environment: p["Environment"], Mode: p["Mode"], ChainID: id, AlarmTopic: p["AlarmTopicArn"],
	}.Open()...)
	return fmt.Sprintf("%s, %s mode", p["Environment"], p["Mode"]), err
}

// isReserved finds a stack in production whose functions share all concurrency.
func (a *account) isReserved(context.Context) (string, error) {
	switch size := a.parameters["Size"]; {
	case size != "sandbox":
		return "as " + size + " does", nil
	case a.parameters["Environment"] == "prod":
		return "", errors.New("the Size is sandbox: a flood of one function's requests can stop payments and settlement")
	default:
		return "none, as none is wanted outside of production", nil
	}
}

// tablesAreKept looks for what a restored table lacks.
func (a *account) tablesAreKept(ctx context.Context) (string, error) {
	t := dynamo.Tables{APIKeys: a.outputs["ApiKeysTableName"], Payments: a.outputs["PaymentsTableName"],
		Webhooks: a.outputs["WebhooksTableName"]}
	lacks, err := t.Lacks(ctx, dynamodb.NewFromConfig(a.aws), a.parameters["Environment"] == "prod")
	if err == nil && len(lacks) > 0 {
		err = errors.New(strings.Join(lacks, "; "))
	}
	return strings.Join([]string{t.APIKeys, t.Payments, t.Webhooks}, ", "), err
}

// secretsAreReplicated looks for the copies of the secrets in the second region.
func (a *account) secretsAreReplicated(ctx context.Context) (string, error) {
	region := a.parameters["ReplicaRegion"]
	rpc, err := a.output("RpcSecretArn")
	if err != nil {
		return "", err
	}
	keyed, err := a.keyed(ctx)
	if err != nil {
		return "", err
	}
	ids := []string{rpc}
	for address := range keyed {
		ids = append(ids, a.outputs["WalletSecrets"]+address.String())
	}
	for _, id := range ids {
		secret, err := secretsmanager.NewFromConfig(a.aws).DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &id})
		if err != nil {
			return "", fmt.Errorf("describing %s: %w", id, err)
		}
		if !slices.ContainsFunc(secret.ReplicationStatus, func(r smtypes.ReplicationStatusType) bool {
			return aws.ToString(r.Region) == region && r.Status == smtypes.StatusTypeInSync
		}) {
			return "", fmt.Errorf("%s is not in %s", id, region)
		}
	}
	return fmt.Sprintf("%d in %s", len(ids), region), nil
}

// scheduleIsAlive looks for a run of check-receipts in the last minutes.
func (a *account) scheduleIsAlive(ctx context.Context) (string, error) {
	name, err := a.output("CheckReceiptsFunctionName")
	if err != nil {
		return "", err
	}
	runs, err := a.sum(ctx, 10*time.Minute, "AWS/Lambda", "Invocations", "FunctionName", name)
	if err == nil && runs == 0 {
		err = errors.New("check-receipts did not run in the last 10 minutes")
	}
	return fmt.Sprintf("%.0f runs in 10 minutes", runs), err
}

// health returns what check-receipts has seen of nodes in the last ten minutes. A
// breaker is open if it was in the last two.
func (a *account) health(ctx context.Context, nodes chain.Nodes) ([]chain.Health, error) {
	var all []chain.Health
	for _, n := range nodes {
		missed, err := a.sum(ctx, 10*time.Minute, "Remit", "NodeErrors", "Stack", a.stack, "Node", n.String())
		open, openErr := a.sum(ctx, 2*time.Minute, "Remit", "NodeBreakerOpen", "Stack", a.stack, "Node", n.String())
		if err := errors.Join(err, openErr); err != nil {
			return nil, err
		}
		all = append(all, chain.Health{Node: n.String(), Missed: int(missed), Open: open > 0})
	}
	return all, nil
}

// sum returns the sum of a metric's values in the last time. dimensions are names
// and values in turn.
func (a *account) sum(ctx context.Context, last time.Duration, namespace, metric string, dimensions ...string) (sum float64, err error) {
	end := time.Now()
	in := &cloudwatch.GetMetricStatisticsInput{
		Namespace: &namespace, MetricName: &metric, Period: aws.Int32(60), Statistics: []cwtypes.Statistic{cwtypes.StatisticSum},
		StartTime: aws.Time(end.Add(-last)), EndTime: &end,
	}
	for d := range slices.Chunk(dimensions, 2) {
		in.Dimensions = append(in.Dimensions, cwtypes.Dimension{Name: &d[0], Value: &d[1]})
	}
	stats, err := cloudwatch.NewFromConfig(a.aws).GetMetricStatistics(ctx, in)
	if err != nil {
		return 0, fmt.Errorf("reading the metric %s: %w", metric, err)
	}
	for _, point := range stats.Datapoints {
		sum += aws.ToFloat64(point.Sum)
	}
	return sum, nil
}

// empty returns the check that the queue which an output names holds no message.
func (a *account) empty(output string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		url, err := a.output(output)
		if err != nil {
			return "", err
		}
		got, err := sqs.NewFromConfig(a.aws).GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages},
		})
		if err != nil {
			return "", err
		}
		count := got.Attributes["ApproximateNumberOfMessages"]
		if n, err := strconv.Atoi(count); err != nil || n > 0 {
			return "", fmt.Errorf("%s messages", count)
		}
		return "empty", nil
	}
}

// resources lists the stack's resources.
func (a *account) resources(ctx context.Context) (all []types.StackResourceSummary, err error) {
	pages := cloudformation.NewListStackResourcesPaginator(cloudformation.NewFromConfig(a.aws),
		&cloudformation.ListStackResourcesInput{StackName: &a.stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the stack's resources: %w", err)
		}
		all = append(all, page.StackResourceSummaries...)
	}
	return all, nil
}

// declared returns the physical names of the stack's resources of one type.
func (a *account) declared(ctx context.Context, kind string) (map[string]bool, error) {
	all, err := a.resources(ctx)
	declared := map[string]bool{}
	for _, r := range all {
		if aws.ToString(r.ResourceType) == kind {
			declared[aws.ToString(r.PhysicalResourceId)] = true
		}
	}
	return declared, err
}

// declaredAlarms returns the names of the alarms that the template has made.
func (a *account) declaredAlarms(ctx context.Context) (map[string]bool, error) {
	return a.declared(ctx, "AWS::CloudWatch::Alarm")
}

// alarms returns the alarms of those names that there are, in the order of their names.
func (a *account) alarms(ctx context.Context, declared map[string]bool) (all []cwtypes.MetricAlarm, err error) {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(declared)), 100) { // as many as one call takes
		pages := cloudwatch.NewDescribeAlarmsPaginator(cloudwatch.NewFromConfig(a.aws),
			&cloudwatch.DescribeAlarmsInput{AlarmNames: names, MaxRecords: aws.Int32(100)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("listing the alarms: %w", err)
			}
			all = append(all, page.MetricAlarms...)
		}
	}
	return slices.DeleteFunc(all, func(m cwtypes.MetricAlarm) bool { return !declared[aws.ToString(m.AlarmName)] }), nil
}

// alarmsExist holds the template's alarms against CloudWatch's.
func (a *account) alarmsExist(ctx context.Context) (string, error) {
	declared, err := a.declaredAlarms(ctx)
	if err != nil {
		return "", err
	}
	existing, err := a.alarms(ctx, declared)
	if err != nil {
		return "", err
	}
	total := len(declared)
	var alarming []string
	for _, alarm := range existing {
		name := aws.ToString(alarm.AlarmName)
		if alarm.StateValue == cwtypes.StateValueAlarm {
			alarming = append(alarming, name)
		}
		delete(declared, name)
	}
	switch {
	case total == 0:
		return "", errors.New("the stack has no alarms")
	case len(declared) > 0:
		return "", fmt.Errorf("%d of %d are missing", len(declared), total)
	case len(alarming) > 0:
		return "", fmt.Errorf("in alarm: %s", strings.Join(alarming, ", "))
	}
	return fmt.Sprintf("%d, none in alarm", total), nil
}
