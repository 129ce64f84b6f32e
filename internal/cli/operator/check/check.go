// Package check has one list of checks of a stack, before a deployment (remit preflight) and after it (remit doctor).
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ErrNotReady reports problems that would fail a deployment, or payments after it. Nothing was deployed.
var ErrNotReady = errors.New("not ready to deploy: fix the problems above, then try again")

type moment int

const (
	before  moment = 1 << iota // a deployment
	warning                    // before a deployment too, but a problem does not stop it
	after                      // a deployment on AWS
	local                      // at any time, for a stack in this process
	always  = after | local
)

type check struct {
	name    string
	when    moment
	examine func(context.Context) (result string, err error)
	advice  string // how to fix the error
}

// A problem is an error with a fix of its own, instead of its check's advice.
type problem struct {
	error
	fix   string
	warns bool // it does not stop a deployment
}

func fixed(fix, format string, args ...any) error {
	return problem{error: fmt.Errorf(format, args...), fix: fix}
}

// An examination covers a stack as it is or, before a deployment, as it will be.
type examination struct {
	*deployed.Deployment
	template                   // to deploy
	now      *deployed.Account // the stack before the deployment; nil after it
	who      arn.ARN           // the caller

	only    string // check to make; empty: all
	rails   []*deployed.Deployment
	nodes   chain.Nodes
	wallets wallet.Registry
	rules   stack.Rules

	noRails, noNodes, noWallets, noRules error // why there are none
}

func (e *examination) checks(ctx context.Context) []check {
	all := []check{
		{"region", before, e.inRegion, ""},
		{"stack", before, e.isWhole, ""},
		{"parameters", before, e.changes, ""},
		{"log role of API Gateway", before, e.logRole, ""},
		{"concurrency", before, e.quotaSuffices, ""},
		{"alarm topics", before, e.topicsExist, "make one that EventBridge may publish to (docs/deploy.md#production)"},
		{"KMS key", before, e.keyWorks, "enable it (aws kms enable-key), or name another in KmsKeyArn"},
		{"canary", warning | after, e.inProduction("Canary", "false", "a bad version gets all payments at once"),
			"make deploy ENV=prod, unless you are going back (docs/operate.md#upgrade-and-go-back)"},
		{"real money", before | after, e.mayHaveMoney, "deploy with these parameters (docs/parameters.md)"},
		{"reserved concurrency", warning | after, e.inProduction("Size", "sandbox", "floods of requests stop payments"),
			"ask AWS for a quota of concurrent executions of 1,000 or more, then deploy with Size=small"},
		{"settings", before | always, e.settingsHold,
			"remit settings show; then remit settings set, set --confirm or apply (docs/operate.md#settings)"},
		{"rails", warning | always, e.railsAreWhole, "add it again with remit rails add (docs/operate.md#rails)"},
		{"rails compared", after, e.railsAreCompared, "remit recover, if payments may be lost; else, if its nodes " +
			"are dead: remit rails open NAME, then remit rails close NAME (docs/operate.md#rails)"},
	}
	for _, on := range e.rails {
		r := *e
		r.Deployment = on
		r.nodes, r.noNodes = on.Nodes(ctx) // which several checks share
		r.wallets, r.noWallets = on.Wallets(ctx)
		r.rules, r.noRules = on.Rules(ctx)
		of := append(r.ofRail(), r.ofWallets()...)
		kept := func(w wallet.Registration) bool { return w.State != wallet.Retired }
		if on.On.Settings.Closed && r.noWallets == nil && !slices.ContainsFunc(r.wallets, kept) {
			of = of[:1] // the registry: no payment needs the rest
		}
		for _, c := range of {
			if len(e.rails) > 1 {
				c.name = on.Name() + ": " + c.name
			}
			all = append(all, c)
		}
	}
	return append(all,
		check{"live versions", after, e.liveIsDeployed, "let a canary end; else find who moved the alias, and deploy"},
		check{"keys in KMS", after, e.grantsFit, "give a missing grant as it says; end one of a stranger with " +
			"aws kms revoke-grant, and of a retired wallet with remit wallet retire"},
		check{"tables", after, e.tablesAreKept, "set it as in docs/disasters.md#go-back-to-a-point-in-time, step 3; " +
			"a table with the keys of another is in the wrong parameter"},
		check{"replicas of the secrets", after, e.secretsAreReplicated,
			"check the secret's replication in Secrets Manager (docs/disasters.md#a-lost-region)"})
}

// Preflight is `remit preflight`.
type Preflight struct {
	Stack      string   `default:"remit" env:"REMIT_STACK" help:"Name of the stack to deploy."`
	Region     string   `help:"Region to deploy to; empty is the AWS configuration's."`
	Template   string   `default:"template.yaml" help:"The template to deploy."`
	Parameters []string `arg:"" optional:"" placeholder:"NAME=VALUE" help:"Parameters to change."`
}

// Run makes every check before a deployment. It returns ErrNotReady if a problem stops that.
func (c *Preflight) Run(ctx context.Context, out io.Writer) error {
	cfg, err := deployed.LoadAWS(ctx, c.Region)
	if err != nil {
		return err
	}
	now, err := deployed.Find(ctx, cfg, c.Stack)
	if err != nil && !errors.Is(err, deployed.ErrNoStack) {
		return err
	}
	who, unknown := now.Who(ctx)
	e := &examination{now: now}
	e.who, err = arn.Parse(who)
	if err = cmp.Or(unknown, err); err != nil {
		return fmt.Errorf("asking AWS who you are: %w", err)
	}
	if e.template, err = readTemplate(c.Template, now, c.Parameters); err != nil {
		return err
	}
	a := *now // as the deployment will make it
	table := func(kind string) string {
		return cmp.Or(e.refs["Existing"+kind+"Table"], a.Outputs[kind+"TableName"])
	}
	payments, keys := table("Payments"), table("ApiKeys")
	a.Outputs = map[string]string{"RpcSecretArn": cmp.Or(e.refs["ExistingRpcSecret"], a.Outputs["RpcSecretArn"])}
	a.Parameters = e.refs
	e.Deployment = a.Read(deployed.Target{Stack: a.Stack}, out)
	if payments != "" && keys != "" {
		db := dynamo.Client(a.AWS)
		e.Payments, e.Keys = dynamo.NewPayments(db, payments), dynamo.NewAPIKeys(db, keys)
	}
	fmt.Fprintf(out, "deploying %s to account %s in %s as %s\n", c.Stack, e.who.AccountID, cfg.Region, e.who.Resource)
	return e.run(ctx, before|warning, ErrNotReady)
}

// Doctor is `remit doctor`.
type Doctor struct {
	deployed.Target
	Only string `placeholder:"CHECK" help:"Make this check alone, such as 'live versions'."`
}

// Run makes every check of a deployed stack. It returns an error if one finds a problem.
func (c *Doctor) Run(ctx context.Context, d *deployed.Deployment) error {
	when := after
	if d.Account == nil {
		when = local
	}
	return (&examination{Deployment: d, only: c.Only}).run(ctx, when, errors.New("the deployment is not well"))
}

type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Result string `json:"saw"`
	Do     string `json:"do,omitempty"` // the fix of a problem
}

// run makes the checks of a moment and shows the findings. It returns failed if it finds a problem.
func (e *examination) run(ctx context.Context, when moment, failed error) error {
	if e.Payments != nil {
		e.rails, e.noRails = e.Rails(ctx)
	}
	findings, text, bad := []finding{}, "", 0
	for _, c := range e.checks(ctx) {
		if c.when&when == 0 || !strings.HasSuffix(c.name, e.only) {
			continue
		}
		result, err := c.examine(ctx)
		f, word := finding{Check: c.name, OK: err == nil, Result: result}, "ok"
		if err != nil {
			p, _ := errors.AsType[problem](err)
			if errors.Is(err, secrets.ErrRPC) {
				p.fix = "repair the JSON of the secret " + e.Account.Outputs["RpcSecretArn"]
			}
			f.Result, f.Do, word = err.Error(), cmp.Or(p.fix, c.advice), "BAD"
			if when&before != 0 && (p.warns || c.when&before == 0) {
				word = "WARN"
			} else {
				bad++
			}
		}
		findings = append(findings, f)
		lines := strings.TrimSpace(f.Result + "\n" + f.Do)
		text += fmt.Sprintf("%-4s %-28s %s\n", word, f.Check, strings.ReplaceAll(lines, "\n", "\n     "))
	}
	if len(findings) == 0 {
		return fmt.Errorf("there is no check %q; remit doctor lists them", e.only)
	}
	if err := e.Show(findings, text); err != nil || bad == 0 {
		return err
	}
	return fmt.Errorf("%w (%d of %d checks)", failed, bad, len(findings))
}
