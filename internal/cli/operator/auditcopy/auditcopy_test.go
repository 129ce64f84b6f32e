package auditcopy

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

	"github.com/remit-payouts/remit/internal/payments/store"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// A kept log is a table that has entries, or refuses them.
type keptLog struct {
	store.AuditLog
	err error
}

func (l keptLog) Append(context.Context, store.Act) error { return l.err }

// TestCopiedLog: an entry is entry once it is in the table, and one whose copy is not
// certain is an error, by which a command changes nothing.
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
		{"its time is refused", nil, 200, `{"rejectedLogEventsInfo": {"tooOldLogEventEndIndex": 1}}`, ErrUncopied, 1},
		{"nobody may copy it", nil, 400, `{"__type": "AccessDeniedException"}`, ErrUncopied, 1},
	} {
		asked := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked += string(body)
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.answer)
		}))
		log := Open(aws.Config{
			Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{},
		}, "audit-1", "payments")
		err := log.Beside(keptLog{err: test.table}).Append(t.Context(),
			store.Act{ID: "1", At: noon, Who: "ada", Outcome: store.Begun})
		server.Close()
		if !errors.Is(err, test.want) || strings.Count(asked, `\"Table\":\"payments\",\"ID\":\"1\"`) != test.copies {
			t.Errorf("%s: %v, after %s", test.why, err, asked)
		}
	}
}

// TestAuditLogAndItsCopy: neither can lose, gain or change an entry that the other has.
func TestAuditLogAndItsCopy(t *testing.T) {
	act := func(id string, minutes int, effect string) store.Act {
		return store.Act{ID: id, At: noon.Add(time.Duration(minutes) * time.Minute), Who: "ada", Effect: effect, Outcome: store.Begun}
	}
	old, both, other, late := act("old", -9, ""), act("both", 0, ""), act("other", 1, ""), act("late", 57, "")
	for _, test := range []struct {
		why             string
		table           []store.Act
		copies          []entry
		inTable, inCopy string
	}{
		{"an entry before the copy began, an entry not yet in the copy, an entry of the table before a restore",
			[]store.Act{old, both, late}, []entry{{"payments", both}, {"payments-old", other}}, "", ""},
		{"an entry that was deleted", nil, []entry{{"payments", both}}, "", "12:00:00"},
		{"an entry that nobody entry", []store.Act{both, other}, []entry{{"payments", both}}, "12:01:00", ""},
		{"an entry that was replaced", []store.Act{act("both", 0, "another")}, []entry{{"payments", both}}, "12:00:00", "12:00:00"},
		{"a copy that has just been made", []store.Act{both}, nil, "", ""},
	} {
		inTable, inCopy := unlike("payments", test.table, test.copies, noon.Add(time.Hour))
		for where, c := range map[string]struct {
			got  []string
			want string
		}{"table": {inTable, test.inTable}, "copy": {inCopy, test.inCopy}} {
			if got := strings.Join(c.got, " "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: only the %s has %q, want %q", test.why, where, got, c.want)
			}
		}
	}
}
