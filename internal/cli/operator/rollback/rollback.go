// Package rollback puts the functions of a stack's last deployment back to the versions before it.
package rollback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	stacks "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/setting"
)

// Command is `remit rollback`.
type Command = change.Command[line]

type line struct{}

const (
	// readWithin and actWithin bound the two halves of a rollback: 30 seconds in all, without
	// the time in which the operator reads the plan.
	readWithin, actWithin = 14 * time.Second, 15 * time.Second
	// atOnce is how many functions are queried at a time, below Lambda's limit for one caller.
	atOnce = 8
)

// live is the alias that callers of a function use.
var live = "live"

// errNoOlder reports a release that cannot be rolled back.
var errNoOlder = errors.New("nothing was changed")

// A rollback is the way back from a release: the last deployment, whether it has ended or not.
type rollback struct {
	*deployed.Deployment
	cloud      *cloudformation.Client
	functions  *lambda.Client
	deploys    *codedeploy.Client
	status     stacks.StackStatus
	began      time.Time // the release
	moves      []*move
	app        string   // the application of CodeDeploy
	deployment []string // canaries under way
}

// Change cancels an update under way, stops its canaries, and puts the functions of the last deployment back to the
// versions before it, together. CloudFormation puts back the other changes of a cancelled update, in its own time.
func (line) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	a := d.Account
	if a == nil {
		return none, errors.New("a stack of remit local has one version; stop it and start the other")
	}
	r := &rollback{Deployment: d, cloud: cloudformation.NewFromConfig(a.AWS), functions: lambda.NewFromConfig(a.AWS),
		deploys: codedeploy.NewFromConfig(a.AWS)}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if err := r.plan(ctx); err != nil {
		return none, err
	}
	text := "This puts back the functions of the deployment of " + r.began.UTC().Format(time.RFC3339) + ":\n"
	if r.status == stacks.StackStatusUpdateInProgress {
		text = fmt.Sprintf("This cancels the update of %s and stops %d canaries. CloudFormation puts the whole update back; %d "+
			"functions go back at once.\n",
			r.began.UTC().Format(time.RFC3339), len(r.deployment), len(r.moves))
	}
	for _, m := range r.moves {
		text += fmt.Sprintf("%s  %s -> %s\n", m.Function, m.From, m.To)
	}
	return change.Change{Consequences: text, Apply: r.apply}, nil
}

func (r *rollback) apply(ctx context.Context) (change.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, actWithin)
	defer cancel()
	err := r.act(ctx)
	text := ""
	for _, m := range r.moves {
		text += fmt.Sprintf("%s  %s -> %s  %s\n", m.Function, m.From, m.To, m.State)
	}
	return change.Answer{JSON: r.moves, Text: text + r.afterwards()}, err
}

// plan finds the release, the versions to put back, and whether these may run on the stored settings.
func (r *rollback) plan(ctx context.Context) error {
	found, err := r.cloud.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &r.Stack})
	if err != nil || len(found.Stacks) != 1 {
		return fmt.Errorf("looking for stack %s: %w", r.Stack, cmp.Or(err, errNoOlder))
	}
	r.status = found.Stacks[0].StackStatus
	if !slices.Contains(goesBack, r.status) {
		return fmt.Errorf("%w: stack %s is %s, without an older version; deploy the earlier commit", errNoOlder, r.Stack, r.status)
	}
	work, inTime := errgroup.WithContext(ctx)
	var release operation
	var tables []*setting.Table
	work.Go(func() (err error) {
		release, err = r.release(inTime, aws.ToString(found.Stacks[0].StackId))
		return err
	})
	work.Go(func() error { return r.canaries(inTime) })
	work.Go(func() (err error) {
		tables, err = setting.Read(inTime, r.Deployment)
		return err
	})
	if err := work.Wait(); err != nil {
		return fmt.Errorf("%w: %w", errNoOlder, err)
	}
	r.began = release.began
	if err := r.compare(ctx, release); err != nil {
		return err
	}
	if len(r.moves) == 0 && r.status != stacks.StackStatusUpdateInProgress {
		return fmt.Errorf("%w: no function runs a version of the deployment of %s; check with remit doctor what runs",
			errNoOlder, r.began.UTC().Format(time.RFC3339))
	}
	return r.permitted(ctx, tables)
}

// goesBack are the states of a stack that has a version to go back to: open beside the
// others, in which the last deployment has ended.
var open = []stacks.StackStatus{
	stacks.StackStatusUpdateInProgress, stacks.StackStatusUpdateFailed, stacks.StackStatusUpdateRollbackInProgress,
	stacks.StackStatusUpdateRollbackFailed,
}

var goesBack = append(slices.Clone(open), stacks.StackStatusCreateComplete, stacks.StackStatusUpdateComplete,
	stacks.StackStatusUpdateCompleteCleanupInProgress,
	stacks.StackStatusUpdateRollbackComplete, stacks.StackStatusUpdateRollbackCompleteCleanupInProgress,
	stacks.StackStatusImportComplete, stacks.StackStatusImportRollbackComplete)

// afterwards returns the next step, by the status of the stack.
func (r *rollback) afterwards() string {
	command := map[stacks.StackStatus]string{
		stacks.StackStatusUpdateInProgress:         "wait stack-rollback-complete",
		stacks.StackStatusUpdateRollbackInProgress: "wait stack-rollback-complete",
		stacks.StackStatusUpdateFailed:             "rollback-stack",
		stacks.StackStatusUpdateRollbackFailed:     "continue-update-rollback",
	}[r.status]
	if command == "" {
		return "Deploy the commit that runs now before any other (docs/operate.md#upgrade-and-roll-back)."
	}
	return fmt.Sprintf("aws cloudformation %s --stack-name %s  puts back what else the update has changed", command,
		r.Stack)
}
