package rollback_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// An event is one of the stack's, OP, or of a function's alias that gets a version.
type event struct {
	of, status, version string
	at                  time.Time
}

// released is AWS as far as a rollback asks it, with answers that take a time of a clock that
// runs only while nothing else does. It is the platform of a deployment too.
type released struct {
	*deployed.Account
	tables *memory.Payments
	books  *memory.APIKeys

	mu     sync.Mutex
	slow   time.Duration
	status string
	events []event // oldest first
	runs   map[string]string
	canary map[string]string            // the version that gets a tenth of a function's requests
	has    map[string]map[string]string // environments, by function:version
	faults map[string]string            // by action and name: fails, hangs, lost or ended
	asked  []string                     // requested changes

	meanwhile func() // happens before the operator agrees
}

func newReleased() *released {
	r := &released{tables: memory.NewPayments(), books: &memory.APIKeys{}, runs: map[string]string{},
		canary: map[string]string{}, has: map[string]map[string]string{}, faults: map[string]string{}}
	r.Account = &deployed.Account{Stack: "remit",
		Outputs: map[string]string{"ApiKeysTableName": "keys", "PaymentsTableName": "payments"},
		AWS:     aws.Config{Region: "us-east-1", HTTPClient: r, Credentials: aws.AnonymousCredentials{}}}
	return r
}

func (*released) Who(context.Context) (string, error) { return "ada", nil }

func (r *released) Do(request *http.Request) (*http.Response, error) {
	body := ""
	if request.Body != nil {
		text, _ := io.ReadAll(request.Body)
		body = string(text)
	}
	w := httptest.NewRecorder()
	r.mu.Lock()
	slow := r.slow
	r.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	r.mu.Lock()
	hangs := r.answer(w, request, body)
	r.mu.Unlock()
	if hangs {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return w.Result(), nil
}

// answer is locked.
func (r *released) answer(w *httptest.ResponseRecorder, request *http.Request, body string) (hangs bool) {
	form, _ := url.ParseQuery(body)
	action := form.Get("Action") + strings.TrimPrefix(request.Header.Get("X-Amz-Target"), "CodeDeploy_20141006.")
	path := strings.Split(request.URL.Path, "/") // "", date, functions, NAME, …
	var in struct {
		FunctionVersion, DeploymentID, RevisionID string
		AutoRollbackEnabled                       bool
		RoutingConfig                             *struct{ AdditionalVersionWeights map[string]float64 }
	}
	_ = json.Unmarshal([]byte(body), &in)
	name := in.DeploymentID
	if action == "" {
		action, name = map[string]string{"GET": "Get", "PUT": "Update"}[request.Method]+path[4], path[3]
	}
	fault := cmp.Or(r.faults[action+" "+name], r.faults[action])
	if fault == "fails" || fault == "ended" {
		w.WriteHeader(http.StatusBadRequest)
		kind := map[string]string{"fails": "AccessDeniedException", "ended": "DeploymentAlreadyCompletedException"}[fault]
		_, _ = fmt.Fprintf(w, `{"__type":%q,"message":"no right to do that"}`, kind)
		return false
	}
	switch action {
	case "DescribeStacks":
		_, _ = io.WriteString(w, operatortest.Stack(r.status, nil, nil))
	case "ListStackResources":
		_, _ = io.WriteString(w, operatortest.Resources("AWS::CodeDeploy::Application app", "AWS::CodeDeploy::DeploymentGroup pay"))
	case "DescribeStackEvents":
		r.page(w, form.Get("NextToken"))
	case "CancelUpdateStack":
		r.asked = append(r.asked, "cancel")
		if r.status = "UPDATE_ROLLBACK_IN_PROGRESS"; fault != "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<ErrorResponse><Error><Code>ValidationError</Code></Error></ErrorResponse>")
			r.status = fault
		}
	case "ListDeployments":
		list := []string{}
		for name := range r.canary {
			list = append(list, "of "+name)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"deployments": list})
	case "StopDeployment":
		r.asked = append(r.asked, "stop "+name+strconv.FormatBool(in.AutoRollbackEnabled))
		if fault != "lost" {
			delete(r.canary, strings.TrimPrefix(name, "of "))
		}
		_, _ = io.WriteString(w, "{}")
	case "Updatealiases":
		if in.RevisionID != "" && in.RevisionID != r.runs[name] {
			w.WriteHeader(http.StatusPreconditionFailed)
			return false
		}
		r.asked = append(r.asked, name+" "+in.FunctionVersion)
		if fault != "hangs" {
			r.runs[name] = in.FunctionVersion
			if in.RoutingConfig != nil && len(in.RoutingConfig.AdditionalVersionWeights) == 0 {
				delete(r.canary, name)
			}
		}
		_, _ = io.WriteString(w, "{}")
		return fault == "hangs" || fault == "lost"
	case "Getaliases":
		weights := map[string]float64{}
		if r.canary[name] != "" {
			weights[r.canary[name]] = 0.1
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"FunctionVersion": r.runs[name], "RevisionId": r.runs[name],
			"RoutingConfig": map[string]any{"AdditionalVersionWeights": weights}})
	case "Getconfiguration":
		environment, exists := r.has[name+":"+request.URL.Query().Get("Qualifier")]
		if !exists {
			environment = map[string]string{"READS": "1"}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Environment": map[string]any{"Variables": environment}})
	}
	return false
}

// deploys makes the events of a deployment that gives versions to functions, "a2 ~b3": the
// alias of b has come as far as a canary.
func (r *released) deploys(kind, versions string) {
	time.Sleep(time.Hour)
	add := func(of, status, version string) {
		r.events = append(r.events, event{of, status, version, time.Now()})
	}
	first := map[string]string{"create": "CREATE"}[kind]
	if first == "" {
		first = "UPDATE"
	}
	add("OP", first+"_IN_PROGRESS", "")
	for v := range strings.FieldsSeq(versions) {
		v, canary := strings.CutPrefix(v, "~")
		name, version := v[:1], v[1:]
		add(name, first+"_IN_PROGRESS", version)
		switch {
		case canary:
			r.canary[name] = version
		case kind == "undone":
			add(name, "UPDATE_COMPLETE", version)
			add("OP", "UPDATE_ROLLBACK_IN_PROGRESS", "")
			add(name, "UPDATE_COMPLETE", r.runs[name])
		case kind == "forgets": // events older than 90 days
			r.events = slices.DeleteFunc(r.events, func(e event) bool { return e.of == name && e.version != version })
			add(name, "DELETE_SKIPPED", r.runs[name])
			fallthrough
		default:
			add(name, first+"_COMPLETE", version)
			r.runs[name] = version
		}
	}
	r.status = map[string]string{"create": "CREATE_COMPLETE", "undone": "UPDATE_ROLLBACK_COMPLETE", "open": "UPDATE_IN_PROGRESS"}[kind]
	if r.status == "" {
		r.status = "UPDATE_COMPLETE"
	}
	if kind != "open" {
		add("OP", r.status, "")
	}
	time.Sleep(time.Hour)
}

// page gives some of the events, newest first.
func (r *released) page(w io.Writer, token string) {
	all, from := slices.Clone(r.events), 0
	slices.Reverse(all)
	many := max(4, len(all)/4)
	_, _ = fmt.Sscan(token, &from)
	_, _ = io.WriteString(w, "<R><DescribeStackEventsResult><StackEvents>")
	for _, e := range all[from:min(from+many, len(all))] {
		kind, id, properties := "AWS::Lambda::Alias", "arn:alias", fmt.Sprintf(`{"FunctionName":%q,"FunctionVersion":%q}`, e.of, e.version)
		switch {
		case e.of == "OP":
			kind, id, properties = "AWS::CloudFormation::Stack", "arn:stack", ""
		case strings.HasPrefix(e.status, "DELETE"):
			kind, id, properties = "AWS::Lambda::Version", "arn:aws:lambda:us-east-1:1:function:"+e.of+":"+e.version, ""
		}
		_, _ = fmt.Fprintf(w, "<member><ResourceType>%s</ResourceType><PhysicalResourceId>%s</PhysicalResourceId><ResourceStatus>%s</ResourceStatus><ResourceProperties>%s</ResourceProperties><Timestamp>%s</Timestamp></member>",
			kind, id, e.status, properties, e.at.UTC().Format(time.RFC3339))
	}
	_, _ = io.WriteString(w, "</StackEvents>")
	if from+many < len(all) {
		_, _ = fmt.Fprintf(w, "<NextToken>%d</NextToken>", from+many)
	}
	_, _ = io.WriteString(w, "</DescribeStackEventsResult></R>")
}
