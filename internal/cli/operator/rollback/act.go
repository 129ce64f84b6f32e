package rollback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	stacks "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/payments/settlement"
)

// A move puts a function's alias back.
type move struct {
	Function string `json:"function"`
	From     string `json:"from"`
	To       string `json:"to"`
	State    string `json:"state"` // put back, not put back, or unknown
	canary   bool   // CodeDeploy moves the alias too
	revision *string
}

const (
	callWithin = 5 * time.Second // one alias
	// patience is how long a stopped canary has to put its alias back itself.
	patience = 6 * time.Second
)

// canaries finds the deployments of CodeDeploy that have not ended.
func (r *rollback) canaries(ctx context.Context) error {
	if !slices.Contains(open, r.status) {
		return nil
	}
	var groups []string
	resources, err := r.Account.Resources(ctx)
	if err != nil {
		return err
	}
	for _, resource := range resources {
		switch resource.Kind {
		case "AWS::CodeDeploy::Application": // SAM makes one
			r.app = resource.Name
		case "AWS::CodeDeploy::DeploymentGroup":
			groups = append(groups, resource.Name)
		}
	}
	found := make([][]string, len(groups))
	work, ctx := errgroup.WithContext(ctx)
	for i, group := range groups {
		work.Go(func() error {
			list, err := r.deploys.ListDeployments(ctx,
				&codedeploy.ListDeploymentsInput{ApplicationName: &r.app, DeploymentGroupName: &group, IncludeOnlyStatuses: []types.DeploymentStatus{
					types.DeploymentStatusCreated, types.DeploymentStatusQueued, types.DeploymentStatusInProgress, types.DeploymentStatusReady,
				}})
			if err != nil {
				return fmt.Errorf("asking for deployments under way: %w", err)
			}
			found[i] = list.Deployments
			return nil
		})
	}
	err = work.Wait()
	r.deployment = slices.Concat(found...)
	return err
}

// act cancels, stops and moves as much as it can. A second run does the rest.
func (r *rollback) act(ctx context.Context) error {
	var errs []error
	if r.status == stacks.StackStatusUpdateInProgress {
		_, err := r.cloud.CancelUpdateStack(ctx, &cloudformation.CancelUpdateStackInput{StackName: &r.Stack})
		if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
			err = nil // it has ended, or goes back already: see below
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("CloudFormation may go on with the update; aws cloudformation cancel-update-stack "+
				"--stack-name %s stops it: %w", r.Stack, err))
		}
	}
	failed := make([]error, len(r.deployment)+len(r.moves))
	var stopping sync.WaitGroup
	for i, id := range r.deployment {
		stopping.Go(func() {
			_, err := r.deploys.StopDeployment(ctx, &codedeploy.StopDeploymentInput{DeploymentId: &id, AutoRollbackEnabled: aws.Bool(true)})
			if _, ended := errors.AsType[*types.DeploymentAlreadyCompletedException](err); err != nil && !ended {
				failed[i] = fmt.Errorf("stopping the canary %s: %w", id, err)
			}
		})
	}
	stopping.Wait()
	var work errgroup.Group
	work.SetLimit(atOnce)
	for i, m := range r.moves {
		work.Go(func() error {
			failed[len(r.deployment)+i] = r.back(ctx, m)
			return nil
		})
	}
	_ = work.Wait() // failed has the errors
	errs = append(errs, failed...)
	if r.status == stacks.StackStatusUpdateInProgress {
		found, err := r.cloud.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &r.Stack})
		if err == nil && len(found.Stacks) == 1 {
			r.status = found.Stacks[0].StackStatus
		}
		if strings.HasPrefix(string(r.status), "UPDATE_COMPLETE") {
			errs = append(errs, errors.New("the update had ended before it could be cancelled; run remit rollback again, which puts its "+
				"other functions back"))
		}
	}
	if slices.ContainsFunc(r.moves, func(m *move) bool { return m.State != putBack }) {
		errs = append(errs, errors.New("run remit rollback again: it puts back the rest"))
	}
	return errors.Join(errs...)
}

const putBack = "put back"

// back moves an alias, unless its canary does, and if nobody has moved it since it was read. An answer that got lost is looked up: the
// alias then shows whether it has moved.
func (r *rollback) back(ctx context.Context, m *move) (err error) {
	for waited := time.Duration(0); m.canary && waited < patience; waited += time.Second {
		if r.at(ctx, m); m.State == putBack {
			return nil
		}
		settlement.Sleep(ctx, time.Second) // once ctx has ended, each try fails at once
	}
	once, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	m.State = putBack
	_, err = r.functions.UpdateAlias(once, &lambda.UpdateAliasInput{FunctionName: &m.Function, Name: &live, FunctionVersion: &m.To,
		RevisionId: m.revision, RoutingConfig: &lambdatypes.AliasRoutingConfiguration{}})
	if err == nil {
		return nil
	}
	if r.at(ctx, m); m.State == putBack {
		return nil
	}
	return fmt.Errorf("%s is %s: %w", m.Function, m.State, err)
}

// at reads which versions an alias has.
func (r *rollback) at(ctx context.Context, m *move) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	alias, err := r.functions.GetAlias(ctx, &lambda.GetAliasInput{FunctionName: &m.Function, Name: &live})
	switch {
	case err != nil:
		m.State = "unknown"
	case aws.ToString(alias.FunctionVersion) == m.To && len(weights(alias)) == 0:
		m.State = putBack
	default:
		m.State = "not put back"
	}
}

// weights returns the versions that get a part of an alias's requests.
func weights(alias *lambda.GetAliasOutput) map[string]float64 {
	if alias.RoutingConfig == nil {
		return nil
	}
	return alias.RoutingConfig.AdditionalVersionWeights
}
