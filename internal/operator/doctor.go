package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"remit/internal/chain"
	"remit/internal/ethrpc"
	"remit/internal/token"
	"remit/internal/wallet"
)

// apart is how many blocks the heads of two nodes that are well may be apart:
// two minutes on Ethereum, 20 s on Base.
const apart = 10

// Doctor is `remit doctor`. MinGasGwei's default is that of the
// template's GasLowGwei.
type Doctor struct {
	Target
	MinGasGwei uint64 `name:"min-gas-gwei" default:"2000000" help:"A wallet with less ether than this is reported."`
	Fresh      bool   `help:"The stack has just been deployed: do not ask for the schedule's heartbeat."`
}

// A finding is the result of one check.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Saw   string `json:"saw"`
	Do    string `json:"do,omitempty"` // advice; "" if all is well
}

// errFindings reports a check that found something wrong.
var errFindings = errors.New("the deployment is not well")

// Run makes all checks and, for each that found something wrong, says what to do.
func (c *Doctor) Run(ctx context.Context, out io.Writer) error {
	d, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	e := &examination{deployment: d, Doctor: c}
	for _, check := range []func(context.Context){
		e.walletSecret, e.nodesAgree, e.tokenIsRight, e.walletsAreFunded, e.scheduleIsAlive, e.deadLettersAreEmpty, e.alarmsExist,
	} {
		check(ctx)
	}
	var b strings.Builder
	bad := 0
	for _, f := range e.findings {
		mark := "ok  "
		if !f.OK {
			mark = "BAD "
			bad++
		}
		fmt.Fprintf(&b, "%s %-28s %s\n", mark, f.Check, f.Saw)
		if f.Do != "" {
			fmt.Fprintf(&b, "     → %s\n", f.Do)
		}
	}
	if err := d.show(e.findings, b.String()); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d checks", errFindings, bad, len(e.findings))
	}
	return nil
}

// An examination collects the findings about one deployment.
type examination struct {
	*deployment
	*Doctor
	findings []finding
}

func (e *examination) found(check string, err error, saw, do string) {
	f := finding{Check: check, OK: err == nil, Saw: saw}
	if err != nil {
		f.Saw, f.Do = err.Error(), do
	}
	e.findings = append(e.findings, f)
}

func (e *examination) walletSecret(ctx context.Context) {
	entries, err := e.wallets(ctx)
	active := 0
	for _, entry := range entries {
		if !entry.Draining {
			active++
		}
	}
	if err == nil && active == 0 {
		err = errors.New("no wallet may pay")
	}
	e.found("wallet secret", err, fmt.Sprintf("%d wallets, %d active", len(entries), active), "remit wallet create --stack "+e.deployment.Stack)
}

func (e *examination) nodesAgree(ctx context.Context) {
	nodes, err := e.nodes(ctx)
	if err != nil {
		e.found("nodes", err, "", `put {"urls":["https://…"]} into the secret of output RpcSecretArn`)
		return
	}
	asset, err := e.asset()
	if err != nil {
		e.found("nodes agree", err, "", "correct the stack's token parameters and deploy")
		return
	}
	var heads []string
	lowest, highest := uint64(math.MaxUint64), uint64(0)
	for _, node := range nodes {
		a, nodeErr := node.Account(ctx, token.Address{}, asset.Contract, chain.ConfirmationRule{})
		if nodeErr != nil {
			err = errors.Join(err, nodeErr)
			continue
		}
		heads = append(heads, fmt.Sprintf("%s at %d", node, a.Head))
		lowest, highest = min(lowest, a.Head), max(highest, a.Head)
	}
	if err == nil && highest-lowest > apart {
		err = fmt.Errorf("heads are %d blocks apart: %s", highest-lowest, strings.Join(heads, ", "))
	}
	e.found("nodes agree", err, strings.Join(heads, ", "), "replace the node that is down, behind or of another chain in the RPC secret (docs/operate.md)")
}

func (e *examination) tokenIsRight(ctx context.Context) {
	want, err := e.asset()
	if err != nil {
		e.found("token", err, "", "correct the stack's token parameters and deploy")
		return
	}
	url, err := e.firstURL(ctx)
	if err != nil {
		e.found("token", err, "", "see nodes")
		return
	}
	_, got, err := ethrpc.Discover(ctx, url, want.Contract)
	if err == nil && got.Decimals != want.Decimals {
		err = fmt.Errorf("the contract has %d decimals, TokenDecimals is %d", got.Decimals, want.Decimals)
	}
	e.found("token", err, fmt.Sprintf("%s with %d decimals at %s", got.Symbol, got.Decimals, want.Contract), "correct TokenAddress and TokenDecimals and deploy, before anybody is paid")
}

func (e *examination) walletsAreFunded(ctx context.Context) {
	rows, err := e.walletRows(ctx)
	if err != nil {
		e.found("wallets", err, "", "check your rights on the payments table and the wallet secret")
		return
	}
	nodes, err := e.nodes(ctx)
	if err != nil {
		e.found("wallets", err, "", "see nodes")
		return
	}
	asset, err := e.asset()
	if err != nil {
		return // a finding of tokenIsRight
	}
	for _, r := range rows {
		views, err := nodes.Views(ctx, r.Address, asset.Contract, chain.ConfirmationRule{})
		if err != nil {
			e.found("wallet "+r.Address.String()[:10], err, "", "see nodes")
			continue
		}
		v := views.Leading()
		var problem error
		do := "send " + asset.Symbol + " and ether for gas to " + r.Address.String()
		switch {
		case r.Paused != "":
			problem, do = fmt.Errorf("%w: %s", wallet.ErrPaused, r.Paused), "docs/alarms says what it means; then remit wallet resume "+r.Address.String()
		case r.NextNonce != nil && v.Mined > *r.NextNonce:
			problem, do = fmt.Errorf("%w: %d mined, next nonce %d", wallet.ErrBehind, v.Mined, *r.NextNonce), "pause every wallet and read docs/alarms: the key is used elsewhere, or the tables were restored"
		case r.Key == "active" && v.Balance.IsZero():
			problem = errors.New("holds no " + asset.Symbol)
		case r.Key == "active" && v.Gas.Less(gwei(e.MinGasGwei)):
			problem = fmt.Errorf("holds %s ether", tokens(v.Gas, 18))
		}
		e.found("wallet "+r.Address.String()[:10], problem, fmt.Sprintf("%s %s, %s ether", tokens(v.Balance, asset.Decimals), asset.Symbol, tokens(v.Gas, 18)), do)
	}
}

// scheduleIsAlive looks for a run of check-receipts in the last minutes.
func (e *examination) scheduleIsAlive(ctx context.Context) {
	if e.Fresh {
		return
	}
	name, err := e.output("CheckReceiptsFunctionName")
	if err != nil {
		e.found("schedule", err, "", "deploy this version's template")
		return
	}
	end := time.Now()
	stats, err := cloudwatch.NewFromConfig(e.aws).GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: aws.String("AWS/Lambda"), MetricName: aws.String("Invocations"), Period: aws.Int32(60),
		StartTime: aws.Time(end.Add(-10 * time.Minute)), EndTime: aws.Time(end), Statistics: []cwtypes.Statistic{cwtypes.StatisticSum},
		Dimensions: []cwtypes.Dimension{{Name: aws.String("FunctionName"), Value: &name}},
	})
	runs := 0.0
	if err == nil {
		for _, point := range stats.Datapoints {
			runs += aws.ToFloat64(point.Sum)
		}
		if runs == 0 {
			err = errors.New("check-receipts did not run in the last 10 minutes")
		}
	}
	e.found("schedule", err, fmt.Sprintf("%.0f runs in 10 minutes", runs), "look at the schedule in the stack's resources, and at the function's log")
}

func (e *examination) deadLettersAreEmpty(ctx context.Context) {
	client := sqs.NewFromConfig(e.aws)
	for _, queue := range []struct{ output, do string }{
		{"WebhookDeadLetterQueueUrl", "docs/alarms; then remit webhooks resend"},
		{"CheckReceiptsDeadLetterQueueUrl", "docs/alarms: look at the log of check-receipts"},
	} {
		url, err := e.output(queue.output)
		if err == nil {
			var got *sqs.GetQueueAttributesOutput
			got, err = client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
				QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages},
			})
			if err == nil {
				count := got.Attributes["ApproximateNumberOfMessages"]
				if n, convErr := strconv.Atoi(count); convErr != nil || n > 0 {
					err = fmt.Errorf("%s messages", count)
				}
			}
		}
		e.found(strings.TrimSuffix(queue.output, "Url"), err, "empty", queue.do)
	}
}

// alarmsExist holds the template's alarms against CloudWatch's.
func (e *examination) alarmsExist(ctx context.Context) {
	declared := map[string]bool{}
	pages := cloudformation.NewListStackResourcesPaginator(cloudformation.NewFromConfig(e.aws), &cloudformation.ListStackResourcesInput{StackName: &e.deployment.Stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			e.found("alarms", err, "", "check your right to list the stack's resources")
			return
		}
		for _, r := range page.StackResourceSummaries {
			if aws.ToString(r.ResourceType) == "AWS::CloudWatch::Alarm" {
				declared[aws.ToString(r.PhysicalResourceId)] = true
			}
		}
	}
	alarming := []string{}
	existing := cloudwatch.NewDescribeAlarmsPaginator(cloudwatch.NewFromConfig(e.aws), &cloudwatch.DescribeAlarmsInput{})
	total := len(declared)
	for existing.HasMorePages() {
		page, err := existing.NextPage(ctx)
		if err != nil {
			e.found("alarms", err, "", "check your right to describe alarms")
			return
		}
		for _, a := range page.MetricAlarms {
			name := aws.ToString(a.AlarmName)
			if declared[name] && a.StateValue == cwtypes.StateValueAlarm {
				alarming = append(alarming, name)
			}
			delete(declared, name)
		}
	}
	var err error
	switch {
	case total == 0:
		err = errors.New("the stack has no alarms")
	case len(declared) > 0:
		err = fmt.Errorf("%d of %d are missing", len(declared), total)
	case len(alarming) > 0:
		err = fmt.Errorf("in alarm: %s", strings.Join(alarming, ", "))
	}
	e.found("alarms", err, fmt.Sprintf("%d, none in alarm", total), "docs/alarms has a page for each")
}
