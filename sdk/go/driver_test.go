package remit_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

var (
	driver = flag.String("driver", "", "hold the SDK of another language, which this program drives, to the rows of sdk/testdata")
	drive  = flag.Bool("drive", false, "be such a program, with the SDK of Go")
)

func TestMain(m *testing.M) {
	if flag.Parse(); !*drive {
		os.Exit(m.Run())
	}
	client, out := &own{}, sync.Mutex{}
	for lines, c := json.NewDecoder(os.Stdin), (command{}); lines.Decode(&c) == nil; c = (command{}) {
		go func() {
			e := client.call(c)
			out.Lock()
			defer out.Unlock()
			_ = json.NewEncoder(os.Stdout).Encode(e)
		}()
	}
}

// A command asks a driver for a call; none is sent before "open" has ended.
// Its arguments are in the same order in every language.
type command struct {
	ID      int               `json:"id"`
	Call    string            `json:"call"`
	Args    []json.RawMessage `json:"args"`
	Options options           `json:"options"`
}

type options struct {
	Timeout   *float64          `json:"timeout,omitempty"` // seconds
	Settle    bool              `json:"settle,omitempty"`
	Asset     *string           `json:"asset,omitempty"`
	Differs   string            `json:"differentFrom,omitempty"`
	Reference string            `json:"reference,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Status    string            `json:"status,omitempty"`
	Cursor    json.RawMessage   `json:"cursor,omitempty"`
	Fakes     []string          `json:"fakes,omitempty"` // of the client's send, now and sleep
}

func (o options) chosen() []remit.Option {
	return []remit.Option{remit.Settle}[:map[bool]int{true: 1}[o.Settle]]
}

// ask returns a command with these arguments.
func ask(call string, o options, args ...any) (c command) {
	list, _ := json.Marshal(args)
	_ = json.Unmarshal(list, &c.Args)
	c.Call, c.Options = call, o
	return c
}

// text returns an argument that is a string, else "".
func (c command) text(i int) (s string) {
	_ = json.Unmarshal(c.Args[i], &s)
	return strings.ReplaceAll(s, "\ufffd", "\xff") // for text that is not UTF-8
}

func (c command) amount(i int) remit.Amount {
	return remit.Amount(cmp.Or(c.text(i), string(c.Args[i])))
}

// An end is how a call ended, in a driver's words.
type end struct {
	ID      int
	Value   json.RawMessage
	Error   string  // the name of the error, and its code, its index, and "stored" if it has them; "invalid" for others
	Message string  // of the error
	Seconds float64 // since the client was made
}

// ended puts how a call of Go ended into a driver's words.
func ended(value any, err error) (e end) {
	if e.Value, _ = json.Marshal(value); err == nil {
		return e
	}
	e.Error, e.Message = "invalid", err.Error()
	if r, is := errors.AsType[*remit.Refused](err); is {
		if e.Error = strings.TrimSpace("Refused " + r.Code); r.Index >= 0 {
			e.Error += fmt.Sprint(" ", r.Index)
		}
		e.Error = strings.TrimSpace(e.Error + " " + r.TxHash)
		if r.Settled {
			e.Error += " settled"
		}
	} else if r, is := errors.AsType[*remit.IntentReused](err); is {
		if e.Error = "IntentReused"; r.Stored != nil {
			e.Error += " stored"
		}
	} else if _, is := errors.AsType[*remit.OutcomeUnknown](err); is {
		e.Error = "OutcomeUnknown"
	}
	return e
}

// own makes the calls of commands with the SDK of Go.
type own struct {
	*remit.Client
	api   *api // answers requests if it is faked
	begin time.Time
}

func (l *own) call(c command) end {
	ctx, cancel := context.WithCancel(context.Background())
	if c.Options.Timeout != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*c.Options.Timeout*float64(time.Second)))
	}
	defer cancel()
	e := ended(l.value(ctx, c))
	e.ID, e.Seconds = c.ID, time.Since(l.begin).Seconds()
	return e
}

func (l *own) value(ctx context.Context, c command) (any, error) {
	switch c.Call {
	case "open":
		l.Client, l.begin = &remit.Client{URL: c.text(0), Key: c.text(1)}, time.Now()
		if slices.Contains(c.Options.Fakes, "send") {
			l.HTTP = &http.Client{Transport: l.api}
		}
		return nil, nil
	case "idle":
		time.Sleep(time.Duration(must(strconv.Atoi(string(c.Args[0])))) * time.Second)
		return nil, nil
	case "key":
		return remit.Key(c.text(0))
	case "parseUnits":
		return remit.ParseUnits(c.text(0), must(strconv.Atoi(string(c.Args[1]))))
	case "formatUnits":
		return remit.FormatUnits(c.amount(0), must(strconv.Atoi(string(c.Args[1]))))
	case "verifyWebhook":
		given, header := map[string]string{}, http.Header{}
		must(0, json.Unmarshal(c.Args[2], &given))
		for name, value := range given {
			header.Set(name, value)
		}
		return remit.VerifyWebhook(c.text(0), []byte(c.text(1)), header)
	case "pay":
		o := remit.Order{To: c.text(1), Amount: c.amount(2), Reference: c.Options.Reference,
			Metadata: c.Options.Metadata, Asset: c.Options.Asset, DifferentFrom: c.Options.Differs}
		return l.Pay(ctx, c.text(0), o, c.Options.chosen()...)
	case "payMany":
		b := remit.Batch{Reference: c.Options.Reference, Metadata: c.Options.Metadata, Asset: c.Options.Asset}
		must(0, json.Unmarshal(c.Args[1], &b.Payments))
		return l.PayMany(ctx, c.text(0), b, c.Options.chosen()...)
	case "propose":
		var asked remit.CreateProposalRequest
		must(0, json.Unmarshal(c.Args[1], &asked))
		return l.Propose(ctx, c.text(0), asked)
	case "approve":
		return l.Approve(ctx, c.text(0))
	case "cancel":
		return l.Cancel(ctx, c.text(0))
	case "balance":
		return l.Balance(ctx, c.text(0))
	case "createKey":
		return l.CreateKey(ctx, remit.IssueAPIKeyRequest{})
	case "get":
		return l.Get(ctx, c.text(0))
	case "wait":
		return l.Wait(ctx, "0x1")
	case "listKeys":
		return l.ListKeys(ctx)
	case "list":
		var all []remit.Payment
		for p, err := range l.List(ctx, url.Values{"status": {c.Options.Status}}) {
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
		return all, nil
	}
	return nil, errors.New("there is no call " + c.Call)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// other makes the calls of commands with an SDK of another language, in the process of its driver.
type other struct {
	*json.Encoder
	*json.Decoder
	api *api // answers requests if it is faked
}

// started starts the driver, once for all tests.
var started = sync.OnceValue(func() *other {
	words := strings.Fields(*driver)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	l := &other{json.NewEncoder(must(cmd.StdinPipe())), json.NewDecoder(must(cmd.StdoutPipe())), nil}
	must(0, cmd.Start())
	return l
})

// call answers the requests of a call until it ends. A call that is made in an answer ends before it.
func (l *other) call(c command) end {
	must(0, l.Encode(c))
	for {
		var line struct {
			end
			Request           int // 0 of an end
			Method, URL, Body string
			Headers           map[string]string
			Timeout           float64
		}
		must(0, l.Decode(&line))
		if line.Request == 0 {
			return line.end
		}
		r := must(http.NewRequest(line.Method, line.URL, strings.NewReader(line.Body)))
		for name, value := range line.Headers {
			r.Header.Set(name, value)
		}
		reply := map[string]any{"answer": line.Request, "status": 0, "seconds": 0}
		l.api.begun = max(line.Seconds, 1e-9)
		if got, err := l.api.answer(r); err == nil {
			reply["status"], reply["retryAfter"], reply["date"] = got.StatusCode, got.Header.Get("Retry-After"), got.Header.Get("Date")
			reply["text"] = string(must(io.ReadAll(got.Body)))
		} else if errors.Is(err, errHang) {
			reply["seconds"] = line.Timeout
		}
		must(0, l.Encode(reply))
	}
}
