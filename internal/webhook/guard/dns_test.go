package guard_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// names returns a resolver that asks a name server of its own, which knows these
// names and no others.
func names(t testing.TB, known map[string][]string) *net.Resolver {
	t.Helper()
	return namesOf(t, func(host string) []string { return known[host] })
}

// namesOf is names for a name server that may change its mind.
func namesOf(t testing.TB, lookup func(host string) []string) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go serveNames(server, lookup)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func serveNames(server net.PacketConn, lookup func(string) []string) {
	buf := make([]byte, 1500)
	for {
		n, from, err := server.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		addrs := lookup(q.Name.String()[:len(q.Name.String())-1])
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if len(addrs) == 0 {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, text := range addrs {
			a := netip.MustParseAddr(text)
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
		if reply, err := m.Pack(); err == nil {
			_, _ = server.WriteTo(reply, from)
		}
	}
}

func refuseDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no name server")
}
