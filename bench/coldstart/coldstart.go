// Package coldstart measures what Lambda does when a function starts: the
// process from its birth over its init to its first answer, and what it weighs.
package coldstart

import (
	"context"
	"fmt"
	"strings"
	"time"

	"remit/bench/plot"
	"remit/bench/report"
	"remit/bench/stats"
)

// Say tells progress, a line a time.
type Say func(format string, args ...any)

// A measured function.
type measured struct {
	*function
	init, first []float64 // milliseconds
	resident    []float64 // MB
	status      string    // of the first answer
}

// Run measures every function of the repository at root.
func Run(ctx context.Context, root string, quick bool, say Say) (*report.Result, error) {
	rounds := 15
	if quick {
		rounds = 3
	}
	say("building the functions as Lambda runs them")
	built, err := build(ctx, root)
	if err != nil {
		return nil, err
	}
	s, err := openServices(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	all := make([]*measured, len(built))
	for i, f := range built {
		all[i] = &measured{function: f}
	}
	// In turns, so that what else the machine does befalls all alike. The first
	// round brings the files into memory and is not counted.
	for round := range rounds + 1 {
		for _, m := range all {
			one, err := m.start(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("starting %s: %w", m.name, err)
			}
			if round > 0 {
				m.init = append(m.init, stats.InMillis(one.init))
				m.first = append(m.first, stats.InMillis(one.first))
				m.resident = append(m.resident, float64(one.resident)/1e6)
			}
		}
		say("round %d of %d", round, rounds)
	}
	inits, err := trace(ctx, all, s)
	if err != nil {
		return nil, err
	}
	return result(all, inits, rounds), nil
}

// start runs the function once. Its payment, if it makes one, has a key of its
// own.
func (m *measured) start(ctx context.Context, s *services) (start, error) {
	event := strings.ReplaceAll(string(m.event), "inv-2041", fmt.Sprint("inv-", time.Now().UnixNano()))
	one, err := run(ctx, m.path, s.env, []byte(event), nil)
	m.status = statusOf(one.answer)
	return one, err
}

// statusOf finds the status of an answer to API Gateway.
func statusOf(answer []byte) string {
	_, rest, ok := strings.Cut(string(answer), `"statusCode":`)
	if !ok {
		return "done"
	}
	status, _, _ := strings.Cut(rest, ",")
	return status
}

func result(all []*measured, inits []report.Table, rounds int) *report.Result {
	r := &report.Result{Setup: fmt.Sprintf("Every function is built as the Makefile does, for this machine, and started %d times under a Runtime API of our own, in turns, with its event from events/. "+
		"Init is from the birth of the process until it asks for its first event; the first answer includes its reads from DynamoDB Local and from a chain on this machine. "+
		"`hello` is the least a Go function can be, built with the same flags. Lambda adds the start of its sandbox and the download of the zip, and has a slower core below 1,769 MB.", rounds)}
	t := report.Table{Title: "Starts, medians", Head: []string{"function", "init ms", "× hello", "first answer ms", "answer", "resident MB", "binary MB", "zip MB"}}
	base := stats.Median(all[0].init)
	bars := plot.Bars{Title: "Init, and from there to the first answer", XName: "ms", Series: []plot.Series{{Name: "init"}, {Name: "first answer"}}}
	var smallInit, chainInit, zip, smallZip, binary float64
	for _, m := range all {
		init, first := stats.Median(m.init), stats.Median(m.first)
		t.Row(m.name, init, fmt.Sprintf("%.2f", stats.Ratio(init, base)), first, m.status, stats.Median(m.resident), float64(m.size)/1e6, float64(m.zipped)/1e6)
		bars.Names = append(bars.Names, m.name)
		bars.Series[0].Values = append(bars.Series[0].Values, init)
		bars.Series[1].Values = append(bars.Series[1].Values, first-init)
		r.Figure("init_ms_"+m.name, init)
		r.Figure("resident_mb_"+m.name, stats.Median(m.resident))
		zip, binary = max(zip, float64(m.zipped)/1e6), max(binary, float64(m.size)/1e6)
		if m.ethereum {
			chainInit = max(chainInit, init)
		} else if m.name != hello {
			smallInit, smallZip = max(smallInit, stats.Ratio(init, base)), max(smallZip, float64(m.zipped)/1e6)
		}
	}
	r.Tables = append([]report.Table{t}, inits...)
	r.Plots = []report.Plot{{File: "coldstart.svg", Caption: bars.Title, SVG: bars.SVG()}}
	r.AtMost("init of the slowest function without a chain client, of hello's", "%.2f ×", smallInit, 1.5)
	r.Because("The tables of package initialisation say where it goes: the AWS SDK builds DynamoDB's schemas and endpoint rules before main, in every function alike, and the binary has a third more to map. hello makes no client at all. Cutting it means cutting the SDK.")
	r.AtMost("init of the slowest function with one, ms", "%.1f", chainInit, 12)
	r.AtMost("largest zip, MB", "%.2f", zip, 5)
	r.AtMost("largest zip without a chain client, MB", "%.2f", smallZip, 3.5)
	r.Because("Those with a queue link the SDK's SQS client beside DynamoDB's for one call, SendMessage. In units of 1,048,576 bytes, as Lambda counts its limits, the largest is %.2f.", smallZip*1e6/(1<<20))
	r.AtMost("largest binary, MB", "%.2f", binary, 12)
	return r
}
