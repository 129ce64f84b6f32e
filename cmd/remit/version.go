package main

import "runtime/debug"

// version is the release that tools/release builds. Other programs have the version that Go gives their module.
var version string

// builtAs returns the version that remit --version prints.
func builtAs() string {
	if built, ok := debug.ReadBuildInfo(); ok && version == "" {
		return "remit " + built.Main.Version
	}
	return "remit " + version
}
