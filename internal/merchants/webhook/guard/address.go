package guard

import (
	"net/netip"

	"code.dny.dev/ssrf"
)

// public refuses the addresses of IANA's special-purpose registries, all of IPv6 that is no global unicast, and
// 6bone's, which were returned (RFC 3701).
var public = ssrf.New(ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("3ffe::/16")))

// Public reports whether a host on the internet can have address a: none with a zone, or of IPv4 written as IPv6.
func Public(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" && public.SafeAddr(a) == nil }
