package ethrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func gas(gas string) map[string]func(request) raw {
	return map[string]func(request) raw{"eth_estimateGas": always(result(`"` + gas + `"`))}
}

func TestANodeOfAnotherChainIsNeverAskedAgain(t *testing.T) {
	s := serve(t, map[string]func(request) raw{"eth_chainId": always(result(`"0x1"`))})
	node := open(t, s.URL)
	for question, ask := range asked {
		if _, err := ask(t, node); !errors.Is(err, chain.ErrWrongChain) {
			t.Errorf("%s: %v, want ErrWrongChain", question, err)
		}
	}
	if reply := node.Send(t.Context(), signed); reply.Class != chain.Ambiguous {
		t.Errorf("Send: %+v, want ambiguous: its answers are not ours", reply)
	}
	if n := len(s.methods()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestAsksForTheChainAgainUntilItIsToldIt(t *testing.T) {
	answers := gas("0x5208")
	id := failure("-32005", "slow down")
	answers["eth_chainId"] = func(request) raw { return id }
	node := open(t, serve(t, answers).URL)
	if gas, err := node.Estimate(t.Context(), chain.Call{}); err == nil || errors.Is(err, chain.ErrWrongChain) {
		t.Fatalf("Estimate = %d, %v, want another error", gas, err)
	}
	id = result(`"0x14a34"`)
	must.Get(node.Estimate(t.Context(), chain.Call{}))(t)
}

func TestOpensOnlyNodeURLs(t *testing.T) {
	for _, bad := range []string{
		"", "example.org", "ws://example.org/secret-key", "wss://example.org/secret-key", "/var/geth.ipc",
		"http://", "https:///secret-key", "http://example.org:port/secret-key", "://secret-key",
	} {
		_, err := ethrpc.Open(bad, ethrpc.Config{ChainID: 1})
		if !errors.Is(err, ethrpc.ErrURL) {
			t.Errorf("Open(%q): %v, want ErrURL", bad, err)
		} else if strings.Contains(err.Error(), "secret-key") {
			t.Errorf("the error quotes the URL: %v", err)
		}
	}
	if _, err := ethrpc.Open("http://example.org", ethrpc.Config{}); err == nil {
		t.Error("opened a node without a chain id")
	}
	node, err := ethrpc.Open("https://user:hunter22@mainnet.example.org:8443/v2/0123456789abcdef?apikey=fedcba9876543210#frag",
		ethrpc.Config{ChainID: 1})
	must.OK(t, err)
	if got, want := node.String(), "mainnet.example.org:8443"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
}

func TestErrorsHoldNoPartOfTheURLButItsHost(t *testing.T) {
	const path = "/v2/0123456789abcdef"
	echo := func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if r.URL.Query().Get("apikey") == "status-fedcba98" {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		text := fmt.Sprintf("project %s of %s is over its limit", strings.TrimPrefix(r.URL.Path, "/v2/"), r.URL.Query().Get("apikey"))
		if status == http.StatusOK {
			text = `[{"jsonrpc":"2.0","id":1,"result":"0x14a34"},{"jsonrpc":"2.0","id":2,"error":{"code":3,"message":"` + text +
				`","data":"http://` + r.Host + r.RequestURI + `"}}]`
		}
		_, _ = io.WriteString(w, text)
	}
	url := handle(t, echo)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, base := range map[string]string{
		"a refusal that quotes it": url + path + "?apikey=fedcba9876543210",
		"a page that quotes it":    url + path + "?apikey=status-fedcba98",
		"a refused connection":     closed.URL + path + "?apikey=fedcba9876543210",
		"a key of a few letters":   closed.URL + "/k3y",
		"a transport's own words":  "http://unreachable.example" + path,
		"a password":               strings.Replace(closed.URL, "://", "://someuser:hunter2222@", 1) + path,
	} {
		t.Run(name, func(t *testing.T) {
			config := ethrpc.Config{ChainID: chainID}
			if strings.Contains(base, "unreachable") {
				config.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("cannot reach " + base) })
			}
			node := must.Get(ethrpc.Open(base, config))(t)
			_, err := node.Estimate(t.Context(), chain.Call{})
			if err == nil || config.Transport != nil && !strings.Contains(err.Error(), "cannot reach") {
				t.Fatalf("%v, want the reason", err)
			}
			detail := node.Send(t.Context(), signed).Detail
			for _, secret := range []string{"0123456789abcdef", "fedcba98", "hunter2", "someuser", "apikey=", "k3y"} {
				for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, errors.Unwrap(err)), detail, node.String()} {
					if strings.Contains(text, secret) {
						t.Errorf("%q shows %q", text, secret)
					}
				}
			}
		})
	}
}

func TestBoundsAResponse(t *testing.T) {
	url := handle(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `[{"jsonrpc":"2.0","id":1,"result":"`)
		chunk := strings.Repeat("0", 1<<20)
		for range 2 * ethrpc.MaxResponse >> 20 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	node, err := ethrpc.Open(url, ethrpc.Config{ChainID: 1, Timeout: time.Minute}) // so that the size ends the request, not the time
	must.OK(t, err)
	_, err = node.Estimate(t.Context(), chain.Call{})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v, want an error that says too large", err)
	}
}

func TestQuotesNoMoreThanALineOfAPage(t *testing.T) {
	url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, strings.Repeat("<p>\r\n\xff bad gateway</p>", 1000))
	})
	_, err := open(t, url).Estimate(t.Context(), chain.Call{})
	if err == nil || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\r\n") || !utf8.ValidString(err.Error()) ||
		!strings.Contains(err.Error(), "HTTP 502") {
		t.Errorf("error %q, want one line with the status", err)
	}
}

func TestBoundsTheTimeOfARequestWithItsBody(t *testing.T) {
	for _, row := range []struct{ name, begin string }{
		{"no answer at all", ""},
		{"half an answer", `[{"jsonrpc":"2.0","id":1,`},
	} {
		t.Run(row.name, func(t *testing.T) {
			release := make(chan struct{})
			url := handle(t, func(w http.ResponseWriter, _ *http.Request) {
				if row.begin != "" {
					_, _ = io.WriteString(w, row.begin)
					_ = http.NewResponseController(w).Flush()
				}
				<-release
			})
			defer close(release)
			node := must.Get(ethrpc.Open(url, ethrpc.Config{ChainID: chainID, Timeout: 20 * time.Millisecond}))(t)
			if _, err := node.Estimate(t.Context(), chain.Call{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want DeadlineExceeded", err)
			}
			if reply := node.Send(t.Context(), signed); reply.Class != chain.Ambiguous || !strings.Contains(reply.Detail, "deadline") {
				t.Errorf("Send: %+v, want ambiguous", reply)
			}
		})
	}
}

func TestTakesNoProxyFromTheEnvironment(t *testing.T) {
	if transport := ethrpc.NewTransport(); transport.Proxy != nil || transport.MaxIdleConnsPerHost < 128 {
		t.Errorf("proxy set: %v, idle connections per host: %d", transport.Proxy != nil, transport.MaxIdleConnsPerHost)
	}
}

func TestRepeatsARequestOnAKeptConnectionThatDied(t *testing.T) {
	// Hangs up, without an answer, on the second request of a connection, as a load balancer does
	// with a connection that was idle too long.
	s := serve(t, gas("0x5208"), func(front *http.Server) {
		node := front.Handler
		front.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, servedKey{}, new(atomic.Int32))
		}
		front.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if served, _ := r.Context().Value(servedKey{}).(*atomic.Int32); served.Add(1) == 2 {
				panic(http.ErrAbortHandler)
			}
			node.ServeHTTP(w, r)
		})
	})
	node := open(t, s.URL)
	for i := range 3 {
		if _, err := node.Estimate(t.Context(), chain.Call{}); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

type servedKey struct{}

// ten is the head at which accounts are read, with 3 mined, 5 pending, 7 USDC and 2^70 wei.
func ten() map[string]func(request) raw {
	return map[string]func(request) raw{
		"eth_blockNumber": always(result(`"0xa"`)),
		"eth_getTransactionCount": func(r request) raw {
			if r.arg(1) == "pending" {
				return result(`"0x5"`)
			}
			return result(`"0x3"`)
		},
		"eth_call":       always(result(`"0x` + strings.Repeat("0", 58) + `6acfc0"`)),
		"eth_getBalance": always(result(`"0x400000000000000000"`)),
	}
}

func TestADepthIsFinalBelowTheHead(t *testing.T) {
	for depth, want := range map[uint64]uint64{0: 10, 4: 6, 10: 0, 11: 0, 1<<64 - 1: 0} {
		if got := must.Get(open(t, serve(t, ten()).URL).Head(t.Context(), chain.ConfirmationRule{Depth: depth}))(t); got.Final != want {
			t.Errorf("depth %d: final block %d, want %d", depth, got.Final, want)
		}
	}
}

// TestNamesANodeWithoutAFinalBlock: once a minute, with the tag.
func TestNamesANodeWithoutAFinalBlock(t *testing.T) {
	answers := ten()
	tagged := failure("-32603", "Internal error")
	answers["eth_getBlockByNumber"] = func(request) raw { return tagged }
	answers["eth_getTransactionReceipt"] = always(result(`{"transactionHash":"` + signedHash + `","blockNumber":"0x1","blockHash":"` +
		signedHash + `"}`))
	var log strings.Builder
	now := time.Now()
	node := must.Get(ethrpc.Open(serve(t, answers).URL, ethrpc.Config{ChainID: chainID, Now: func() time.Time { return now },
		Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	for i := range 100 {
		if i == 50 {
			tagged = result("null")
		}
		_, _ = node.Head(t.Context(), chain.ConfirmationRule{Tag: "finalized"})
		_, _ = node.Receipts(t.Context(), []chain.Hash{hash(t, signedHash)})
		now = now.Add(2 * time.Second)
	}
	for text, want := range map[string]int{"node has no final block": 4, "cannot be read": 4, "level=WARN": 8, "node=" + node.String(): 8,
		"tag=finalized": 4, "Internal error": 2} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%q is logged %d times in 200 s, want %d:\n%s", text, got, want, &log)
		}
	}
}
