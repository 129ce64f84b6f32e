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

// spelled returns the flags for remit version and remit help COMMAND.
func spelled(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(args[1:], "--help")
	case len(args) == 1 && args[0] == "version":
		return []string{"--version"}
	}
	return args
}
