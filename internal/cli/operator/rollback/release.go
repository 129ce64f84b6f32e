package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	stacks "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// An operation is one change of the stack, as its events have it.
type operation struct {
	began  time.Time
	undone bool              // CloudFormation took it back
	set    map[string]string // the versions that it gave to aliases, by function
	before map[string]string // the versions that ran until then; "" for a function that it made
}

// release returns the operation to undo: the open operation, or else the newest that changed an
// alias and stayed. Version numbers do not show which version ran before it: CloudFormation or an
// operator may have put back a lower one. So the stack's events give the template's version before,
// and the audit log the versions that operators have put back since.
func (r *rollback) release(ctx context.Context, stack string) (operation, error) {
	ops, last := []operation{{set: map[string]string{}, before: map[string]string{}}}, -1
	pages := cloudformation.NewDescribeStackEventsPaginator(r.cloud, &cloudformation.DescribeStackEventsInput{StackName: &r.Stack})
	for pages.HasMorePages() && !complete(ops, last) {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return operation{}, fmt.Errorf("reading the events of the stack: %w", err)
		}
		for _, e := range page.StackEvents { // newest first
			ops = read(ops, stack, e)
		}
		last = slices.IndexFunc(ops, func(o operation) bool {
			return !o.began.IsZero() && (slices.Contains(open, r.status) || !o.undone && len(o.set) > 0)
		})
	}
	if last < 0 {
		return operation{}, errors.New("the events of the stack, which CloudFormation keeps for 90 days, have no deployment that " +
			"changed a function; deploy the earlier commit")
	}
	release := ops[last]
	fill(ops, last)
	acts, err := r.AuditLog.Acts(ctx, time.Unix(0, 0))
	if err != nil {
		return operation{}, err
	}
	for _, act := range acts {
		if act.Outcome != store.Begun || !strings.Contains(" "+act.Command+" ", " rollback ") || !act.At.Before(release.began) {
			continue
		}
		for _, m := range putBackLine.FindAllStringSubmatch(act.Effect, -1) {
			if release.before[m[1]] == m[2] { // whether or not it has moved: the operator left that version
				release.before[m[1]] = m[3]
			}
		}
	}
	return release, nil
}

// putBackLine is a line of the consent to a rollback.
var putBackLine = regexp.MustCompile(`(?m)^(\S+)  (\d+) -> (\d+)$`)

// complete reports whether the events so far have the release and the versions before.
func complete(ops []operation, last int) bool {
	if last < 0 {
		return false
	}
	fill(ops, last)
	return !slices.ContainsFunc(slices.Collect(maps.Keys(ops[last].set)), func(name string) bool {
		_, known := ops[last].before[name]
		return !known
	})
}

// fill adds the versions of earlier operations to the release.
func fill(ops []operation, last int) {
	for name := range ops[last].set {
		for _, earlier := range ops[last+1:] {
			if _, known := ops[last].before[name]; !known && !earlier.undone && earlier.set[name] != "" {
				ops[last].before[name] = earlier.set[name]
			}
		}
	}
}

// read adds an event to the oldest operation, or begins one before it.
func read(ops []operation, stack string, e stacks.StackEvent) []operation {
	op, status := &ops[len(ops)-1], string(e.ResourceStatus)
	if !op.began.IsZero() {
		ops = append(ops, operation{set: map[string]string{}, before: map[string]string{}})
		op = &ops[len(ops)-1]
	}
	physical := aws.ToString(e.PhysicalResourceId)
	switch kind := aws.ToString(e.ResourceType); {
	case kind == "AWS::CloudFormation::Stack" && physical == stack:
		op.undone = op.undone || strings.Contains(status, "ROLLBACK")
		if e.ResourceStatus == stacks.ResourceStatusUpdateInProgress || e.ResourceStatus == stacks.ResourceStatusCreateInProgress ||
			e.ResourceStatus == stacks.ResourceStatusImportInProgress {
			op.began = aws.ToTime(e.Timestamp)
		}
	case kind == "AWS::Lambda::Alias":
		var p struct{ FunctionName, FunctionVersion string }
		if json.Unmarshal([]byte(aws.ToString(e.ResourceProperties)), &p) != nil || p.FunctionVersion == "" ||
			strings.HasPrefix(status, "DELETE") {
			return ops
		}
		op.set[p.FunctionName] = p.FunctionVersion // the oldest event counts: later ones may go back
		if strings.HasPrefix(status, "CREATE") {
			op.before[p.FunctionName] = ""
		}
	case kind == "AWS::Lambda::Version" && strings.HasPrefix(status, "DELETE_"):
		// The version that the template had before: arn:…:function:NAME:N.
		if parts := strings.Split(physical, ":"); len(parts) > 2 {
			if name := parts[len(parts)-2]; op.before[name] == "" {
				op.before[name] = parts[len(parts)-1]
			}
		}
	}
	return ops
}

// compare finds the functions that still run a version of the release, or a part of whose requests does.
func (r *rollback) compare(ctx context.Context, release operation) error {
	names := slices.Sorted(maps.Keys(release.set))
	moves := make([]*move, len(names))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i, name := range names {
		work.Go(func() error {
			alias, err := r.functions.GetAlias(ctx, &lambda.GetAliasInput{FunctionName: &name, Name: &live})
			if err != nil {
				return fmt.Errorf("%w: asking what runs behind %s: %w", errNoOlder, name, err)
			}
			m := &move{Function: name, From: release.set[name], To: release.before[name], canary: len(weights(alias)) > 0, State: "not put back"}
			runs := aws.ToString(alias.FunctionVersion)
			if !m.canary {
				m.revision = alias.RevisionId
			}
			switch {
			case runs != m.From && !m.canary:
				return nil
			case runs != m.From:
				m.To = runs
			case m.To == "" && slices.Contains(open, r.status):
				return nil // CloudFormation puts it back
			case m.To == "":
				return fmt.Errorf("%w: no record has a version of %s before %s (CloudFormation keeps events for 90 days); "+
					"choose one: aws lambda update-alias --function-name %[2]s --name live --function-version N --routing-config {}",
					errNoOlder, name, runs)
			}
			moves[i] = m
			return nil
		})
	}
	err := work.Wait()
	r.moves = slices.DeleteFunc(moves, func(m *move) bool { return m == nil })
	return err
}
