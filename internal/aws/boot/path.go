package boot

import (
	"slices"
	"strings"
)

// withoutBase removes the base path under which a custom domain serves the API: API Gateway passes it on. resource is
// the template of the route it matched, such as /balance/{address}; the part of the path before its match of the
// template is the base path. A path that does not end in a literal match is returned as it is, for the handler to
// refuse.
func withoutBase(path, resource string) string {
	have, want := strings.Split(path, "/"), strings.Split(strings.TrimPrefix(resource, "/"), "/")
	base := len(have) - len(want)
	if resource == "" || strings.Contains(resource, "{proxy+}") || base < 2 {
		return path // base 1 is the empty text before the first slash
	}
	for i, w := range want {
		if parameter := strings.HasPrefix(w, "{"); have[base+i] != w && (!parameter || have[base+i] == "") {
			return path
		}
	}
	if slices.ContainsFunc(have[1:base], func(s string) bool { return s == "" || s == "." || s == ".." }) {
		return path
	}
	return "/" + strings.Join(have[base:], "/")
}
