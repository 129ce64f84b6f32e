package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// released is a Lambda with functions whose versions were published at minutes past noon.
// It records the moves of aliases.
type released struct {
	at    map[string][]int // by function; its newest version runs
	reads string           // what every version says that it understands
	fails string           // the function whose alias stays

	mu    sync.Mutex
	moved []string
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func (r *released) GetAlias(_ context.Context, in *lambda.GetAliasInput, _ ...func(*lambda.Options)) (*lambda.GetAliasOutput, error) {
	return &lambda.GetAliasOutput{FunctionVersion: aws.String(fmt.Sprint(len(r.at[*in.FunctionName])))}, nil
}

// ListVersionsByFunction gives one version a page.
func (r *released) ListVersionsByFunction(_ context.Context, in *lambda.ListVersionsByFunctionInput, _ ...func(*lambda.Options)) (*lambda.ListVersionsByFunctionOutput, error) {
	all := r.at[*in.FunctionName]
	i := 0
	_, _ = fmt.Sscan(aws.ToString(in.Marker), &i)
	out := &lambda.ListVersionsByFunctionOutput{Versions: []types.FunctionConfiguration{{Version: aws.String("$LATEST")}}}
	if i > 0 {
		published := noon.Add(time.Duration(all[i-1]) * time.Minute).Format("2006-01-02T15:04:05.000-0700")
		out.Versions = []types.FunctionConfiguration{{Version: aws.String(fmt.Sprint(i)), LastModified: &published,
			Environment: &types.EnvironmentResponse{Variables: map[string]string{"READS": r.reads}}}}
	}
	if i < len(all) {
		out.NextMarker = aws.String(fmt.Sprint(i + 1))
	}
	return out, nil
}

func (r *released) UpdateAlias(_ context.Context, in *lambda.UpdateAliasInput, _ ...func(*lambda.Options)) (*lambda.UpdateAliasOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *in.FunctionName == r.fails {
		return nil, errors.New("no right to do that")
	}
	if *in.Name != "live" || in.RoutingConfig == nil || len(in.RoutingConfig.AdditionalVersionWeights) > 0 {
		return nil, errors.New("a canary's share of the requests would stay")
	}
	r.moved = append(r.moved, *in.FunctionName+" "+*in.FunctionVersion)
	return nil, nil
}

// TestRollback: the aliases of one release go back together, and those that it left alone
// stay. Nothing moves if one of them cannot.
func TestRollback(t *testing.T) {
	since := noon.Add(time.Hour)
	for _, c := range []struct {
		why   string
		r     *released
		needs uint64
		moved string
		err   string
	}{
		{"two of three are of the release", &released{at: map[string][]int{"a": {0, 61}, "b": {0, 20, 62}, "c": {0, 30}}, reads: "1"}, 1, "a 1,b 2", ""},
		{"settings that nobody has written", &released{at: map[string][]int{"a": {0, 61}}}, 0, "a 1", ""},
		{"the older version does not know settings", &released{at: map[string][]int{"a": {0, 61}}}, 1, "", "remit settings export"},
		{"the older version knows older settings", &released{at: map[string][]int{"a": {0, 61}}, reads: "1"}, 2, "", "does not understand"},
		{"a first version", &released{at: map[string][]int{"a": {0, 61}, "b": {61}}, reads: "1"}, 1, "", "no version before 1"},
		{"no release", &released{at: map[string][]int{"a": {0, 59}}}, 0, "", "no function runs a version"},
		{"one alias cannot be moved", &released{at: map[string][]int{"a": {0, 61}, "b": {0, 62}}, reads: "1", fails: "a"}, 1, "b 1", "a still runs version 2"},
	} {
		moves, err := lastRelease(t.Context(), c.r, []string{"a", "b", "c"}[:len(c.r.at)], since, c.needs)
		if err == nil {
			err = moveBack(t.Context(), c.r, moves)
		}
		slices.Sort(c.r.moved)
		if got := strings.Join(c.r.moved, ","); got != c.moved || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: moved %q, %v", c.why, got, err)
		}
	}
}

// A deployer is a CodeDeploy with one deployment under way in each group.
type deployer struct{ stopped []string }

func (d *deployer) ListDeployments(_ context.Context, in *codedeploy.ListDeploymentsInput, _ ...func(*codedeploy.Options)) (*codedeploy.ListDeploymentsOutput, error) {
	if *in.ApplicationName != "app" || len(in.IncludeOnlyStatuses) != 4 {
		return nil, errors.New("all deployments there ever were")
	}
	return &codedeploy.ListDeploymentsOutput{Deployments: []string{"of " + *in.DeploymentGroupName}}, nil
}

func (d *deployer) StopDeployment(_ context.Context, in *codedeploy.StopDeploymentInput, _ ...func(*codedeploy.Options)) (*codedeploy.StopDeploymentOutput, error) {
	if !aws.ToBool(in.AutoRollbackEnabled) {
		return nil, errors.New("the alias would stay between two versions")
	}
	d.stopped = append(d.stopped, *in.DeploymentId)
	return nil, nil
}

// TestRollbackBesideACanary: a canary under way is stopped, and takes its alias back.
func TestRollbackBesideACanary(t *testing.T) {
	d := &deployer{}
	running, err := deploying(t.Context(), d, "app", map[string]bool{"send-payment": true, "check-receipts": true})
	if err == nil {
		err = stopped(t.Context(), d, running)
	}
	if want := []string{"of check-receipts", "of send-payment"}; err != nil || !slices.Equal(d.stopped, want) {
		t.Errorf("stopped %v, %v, want %v", d.stopped, err, want)
	}
}
