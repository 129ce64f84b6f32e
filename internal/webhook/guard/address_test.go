package guard_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"remit/internal/webhook/guard"
)

func TestPublic(t *testing.T) {
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
		"126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
		"192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2600::1", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450::1", "2003::1", "3ffd::1",
	} {
		if !guard.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
	}
	for _, p := range guard.Special() {
		for _, a := range []netip.Addr{p.Addr(), last(p)} {
			if guard.Public(a) {
				t.Errorf("%s of %s is public", a, p)
			}
		}
	}
	if guard.Public(netip.Addr{}) {
		t.Error("no address at all is public")
	}
}

// last returns the last address of p.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestNoIPv4HidesInIPv6 writes IPv4 addresses in every known IPv6 form.
func TestNoIPv4HidesInIPv6(t *testing.T) {
	forms := map[string]func(v4 [4]byte) [16]byte{
		"compatible": func(v [4]byte) [16]byte { return [16]byte{12: v[0], v[1], v[2], v[3]} },
		"mapped":     func(v [4]byte) [16]byte { return [16]byte{10: 0xff, 0xff, v[0], v[1], v[2], v[3]} },
		"translated": func(v [4]byte) [16]byte { return [16]byte{8: 0xff, 0xff, 12: v[0], v[1], v[2], v[3]} },
		"NAT64":      func(v [4]byte) [16]byte { return [16]byte{0, 0x64, 0xff, 0x9b, 12: v[0], v[1], v[2], v[3]} },
		"local NAT64": func(v [4]byte) [16]byte {
			return [16]byte{0, 0x64, 0xff, 0x9b, 0, 1, 12: v[0], v[1], v[2], v[3]}
		},
		"6to4":   func(v [4]byte) [16]byte { return [16]byte{0x20, 0x02, v[0], v[1], v[2], v[3]} },
		"Teredo": func(v [4]byte) [16]byte { return [16]byte{0x20, 0x01, 12: ^v[0], ^v[1], ^v[2], ^v[3]} },
		"ISATAP, link-local": func(v [4]byte) [16]byte {
			return [16]byte{0xfe, 0x80, 10: 0x5e, 0xfe, v[0], v[1], v[2], v[3]}
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		v4 := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		for name, form := range forms {
			if a := netip.AddrFrom16(form(v4)); guard.Public(a) {
				t.Errorf("%s: %s is public", name, a)
			}
		}
	})
}

// TestAgreesWithTheStandardLibrary: addresses that netip calls special are never
// public.
func TestAgreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{4, 16}).Draw(t, "bytes")
		a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "address"))
		special := a.IsLoopback() || a.IsPrivate() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsUnspecified() || !a.IsGlobalUnicast()
		if special && guard.Public(a) {
			t.Errorf("%s is public", a)
		}
		if guard.Public(a.WithZone("eth0")) && n == 16 {
			t.Errorf("%s with a zone is public", a)
		}
	})
}
