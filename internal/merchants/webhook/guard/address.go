package guard

import "net/netip"

// special are the addresses at which no merchant's public host can be. Sources: the IANA IPv4 and IPv6
// Special-Purpose Address Registries (RFC 6890, RFC 8190) of 2024-10-22, and RFC 5771 for multicast.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network; Linux connects 0.0.0.0 to itself
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link-local, cloud metadata
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // IETF protocols
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // AMT
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/4"),     // multicast
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast

	netip.MustParsePrefix("2001::/23"),         // IETF protocols, among them Teredo and ORCHID
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4: carries any IPv4 address
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3ffe::/16"),         // 6bone, returned (RFC 3701)
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

// unicast is the only part of IPv6 that public hosts are numbered from (RFC 4291, section 2.4). Outside it lie
// loopback, link-local, unique local, multicast, NAT64 and all the ways to write an IPv4 address in IPv6.
var unicast = netip.MustParsePrefix("2000::/3")

// Public reports whether a host on the internet can have address a: none with a zone, or of IPv4 written as IPv6.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is6() && !unicast.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
