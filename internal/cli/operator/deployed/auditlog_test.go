package deployed_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// A keptLog is a table that takes entries, or refuses them.
type keptLog struct {
	store.AuditLog
	err error
}

func (l keptLog) Append(context.Context, store.Act) error { return l.err }

// TestCopiedLog: an entry without a certain copy is an error, after which a command changes nothing.
func TestCopiedLog(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		why    string
		table  error
		status int
		answer string
		want   error
		copies int
	}{
		{"both have it", nil, 200, `{}`, nil, 1},
		{"the table refuses it", refused, 200, `{}`, refused, 0},
		{"its time is refused", nil, 200, `{"rejectedLogEventsInfo": {"tooOldLogEventEndIndex": 1}}`, deployed.ErrUncopied, 1},
		{"nobody may copy it", nil, 400, `{"__type": "AccessDeniedException"}`, deployed.ErrUncopied, 1},
	} {
		asked := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked += string(body)
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.answer)
		}))
		log := deployed.CopiedLog{AuditLog: keptLog{err: test.table}, Table: "payments", Group: "audit-1", AWS: aws.Config{
			Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{},
		}}
		err := log.Append(t.Context(), store.Act{ID: "1", At: time.Now(), Who: "ada", Outcome: store.Begun})
		server.Close()
		if !errors.Is(err, test.want) || strings.Count(asked, `\"Table\":\"payments\",\"ID\":\"1\"`) != test.copies {
			t.Errorf("%s: %v, after %s", test.why, err, asked)
		}
	}
}
