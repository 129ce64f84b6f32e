package operator

import (
	"cmp"
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
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"golang.org/x/sync/errgroup"
)

// Rollback is `remit rollback`.
type Rollback struct {
	Target
	Yes bool `help:"Do not ask."`
}

// live is the alias that callers of a function use.
var live = "live"

// readsVariable is the variable of a function's environment that says which settings its
// code understands (settings.Code). Code of before there was one understands none.
const readsVariable = "READS"

// atOnce is how many functions are asked at a time, below what Lambda admits of one caller.
const atOnce = 8

// A release is what `remit rollback` asks AWS of. The clients of the SDK are one.
type release interface {
	GetAlias(context.Context, *lambda.GetAliasInput, ...func(*lambda.Options)) (*lambda.GetAliasOutput, error)
	ListVersionsByFunction(context.Context, *lambda.ListVersionsByFunctionInput, ...func(*lambda.Options)) (*lambda.ListVersionsByFunctionOutput, error)
	UpdateAlias(context.Context, *lambda.UpdateAliasInput, ...func(*lambda.Options)) (*lambda.UpdateAliasOutput, error)
}

// A canary is the part of CodeDeploy that moves an alias little by little.
type canary interface {
	ListDeployments(context.Context, *codedeploy.ListDeploymentsInput, ...func(*codedeploy.Options)) (*codedeploy.ListDeploymentsOutput, error)
	StopDeployment(context.Context, *codedeploy.StopDeploymentInput, ...func(*codedeploy.Options)) (*codedeploy.StopDeploymentOutput, error)
}

// Run ends the canaries under way, or puts the functions of the last deployment back to
// the versions that ran before it.
func (c *Rollback) Run(ctx context.Context, d *deployment) error {
	a, onAWS := d.platform.(*account)
	if !onAWS {
		return errors.New("a stack of remit local has one version: stop it and start the other")
	}
	found, err := cloudformation.NewFromConfig(a.aws).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &c.Stack})
	if err != nil {
		return fmt.Errorf("looking for stack %s: %w", c.Stack, err)
	}
	since := cmp.Or(aws.ToTime(found.Stacks[0].LastUpdatedTime), aws.ToTime(found.Stacks[0].CreationTime))
	functions, err := a.declared(ctx, "AWS::Lambda::Function")
	if err != nil {
		return err
	}
	groups, err := a.declared(ctx, "AWS::CodeDeploy::DeploymentGroup")
	if err != nil {
		return err
	}
	applications, err := a.declared(ctx, "AWS::CodeDeploy::Application")
	if err != nil {
		return err
	}
	deploys := codedeploy.NewFromConfig(a.aws)
	for application := range applications { // SAM makes one
		if running, err := deploying(ctx, deploys, application, groups); err != nil {
			return err
		} else if len(running) > 0 {
			if err := d.agree(c.Yes, fmt.Sprintf("This stops %d deployments: their functions go back at once, and CloudFormation then takes the whole update back.", len(running))); err != nil {
				return err
			}
			if err := stopped(ctx, deploys, running); err != nil {
				return err
			}
			return d.show(running, "stopped; aws cloudformation wait stack-rollback-complete --stack-name "+c.Stack+" ends when the rest is back")
		}
	}
	s, err := d.payments()
	if err != nil {
		return err
	}
	rules, err := s.Rules(ctx)
	if err != nil {
		return fmt.Errorf("reading what the older version would have to understand: %w", err)
	}
	client := lambda.NewFromConfig(a.aws)
	moves, err := lastRelease(ctx, client, slices.Sorted(maps.Keys(functions)), since, rules.Settings.Needs)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, m := range moves {
		fmt.Fprintf(&text, "%s  %s -> %s\n", m.Function, m.From, m.To)
	}
	if err := d.agree(c.Yes, "This puts back the functions of the deployment of "+since.UTC().Format(time.RFC3339)+":\n"+text.String()); err != nil {
		return err
	}
	if err := moveBack(ctx, client, moves); err != nil {
		return err
	}
	return d.show(moves, "put back; the next deployment brings its own versions. Deploy the commit that runs now, so that the template says the same")
}

// deploying returns the deployments of the groups that have not ended.
func deploying(ctx context.Context, c canary, application string, groups map[string]bool) (ids []string, err error) {
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		found, err := c.ListDeployments(ctx, &codedeploy.ListDeploymentsInput{ApplicationName: &application, DeploymentGroupName: &group, IncludeOnlyStatuses: []types.DeploymentStatus{
			types.DeploymentStatusCreated, types.DeploymentStatusQueued, types.DeploymentStatusInProgress, types.DeploymentStatusReady,
		}})
		if err != nil {
			return nil, fmt.Errorf("asking for deployments under way: %w", err)
		}
		ids = append(ids, found.Deployments...)
	}
	return ids, nil
}

// stopped stops deployments. CodeDeploy then puts their aliases back itself.
func stopped(ctx context.Context, c canary, ids []string) error {
	var errs []error
	for _, id := range ids {
		if _, err := c.StopDeployment(ctx, &codedeploy.StopDeploymentInput{DeploymentId: &id, AutoRollbackEnabled: aws.Bool(true)}); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// A move puts a function's alias back.
type move struct {
	Function string `json:"function"`
	From     string `json:"from"`
	To       string `json:"to"`
}

// errNoOlder reports a release that cannot be put back.
var errNoOlder = errors.New("nothing was changed")

// lastRelease returns the moves that undo the release of that time: of every function
// whose live version was published since, to the version before it. Each must understand
// what is stored: needs is what the settings ask for, 0 if there are none.
func lastRelease(ctx context.Context, r release, functions []string, since time.Time, needs uint64) ([]move, error) {
	moves := make([]*move, len(functions))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i, name := range functions {
		work.Go(func() (err error) {
			moves[i], err = moveOf(ctx, r, name, since, needs)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	var all []move
	for _, m := range moves {
		if m != nil {
			all = append(all, *m)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no function runs a version that was published since %s", errNoOlder, since.UTC().Format(time.RFC3339))
	}
	return all, nil
}

// moveOf returns nil for a function that the release left alone.
func moveOf(ctx context.Context, r release, name string, since time.Time, needs uint64) (*move, error) {
	alias, err := r.GetAlias(ctx, &lambda.GetAliasInput{FunctionName: &name, Name: &live})
	if err != nil {
		return nil, fmt.Errorf("asking what runs behind %s: %w", name, err)
	}
	number := func(text *string) uint64 { // $LATEST is 0
		n, _ := strconv.ParseUint(aws.ToString(text), 10, 64)
		return n
	}
	runs, before, reads, published := number(alias.FunctionVersion), uint64(0), "", false
	pages := lambda.NewListVersionsByFunctionPaginator(r, &lambda.ListVersionsByFunctionInput{FunctionName: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the versions of %s: %w", name, err)
		}
		for _, v := range page.Versions {
			switch n := number(v.Version); {
			case n == runs:
				at, err := time.Parse("2006-01-02T15:04:05.000-0700", aws.ToString(v.LastModified))
				if err != nil {
					return nil, fmt.Errorf("%s:%d was published at %q: %w", name, n, aws.ToString(v.LastModified), err)
				}
				published = !at.Before(since)
			case n < runs && n > before:
				if before, reads = n, ""; v.Environment != nil {
					reads = v.Environment.Variables[readsVariable]
				}
			}
		}
	}
	if !published {
		return nil, nil
	}
	if before == 0 {
		return nil, fmt.Errorf("%w: %s has no version before %d", errNoOlder, name, runs)
	}
	if understands, _ := strconv.ParseUint(reads, 10, 64); understands < needs {
		return nil, fmt.Errorf("%w: version %d of %s does not understand the stored settings; remit settings export prints the parameters to deploy the older commit with", errNoOlder, before, name)
	}
	return &move{name, strconv.FormatUint(runs, 10), strconv.FormatUint(before, 10)}, nil
}

// moveBack moves every alias, or as many as it can: a second run moves the rest.
func moveBack(ctx context.Context, r release, moves []move) error {
	errs := make([]error, len(moves))
	var work errgroup.Group
	work.SetLimit(atOnce)
	for i, m := range moves {
		work.Go(func() error {
			_, err := r.UpdateAlias(ctx, &lambda.UpdateAliasInput{FunctionName: &m.Function, Name: &live, FunctionVersion: &m.To, RoutingConfig: &lambdatypes.AliasRoutingConfiguration{}})
			if err != nil {
				errs[i] = fmt.Errorf("%s still runs version %s: %w", m.Function, m.From, err)
			}
			return nil
		})
	}
	return errors.Join(work.Wait(), errors.Join(errs...))
}
