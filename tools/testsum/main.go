// Command testsum reads the stream of `go test -json` on standard input. It
// prints a line for each package, everything a failing test printed and, last,
// how many tests passed and failed. It exits with status 1 if a test failed or
// was skipped, since a test that did not run proves nothing.
//
// One kind of skip is allowed: for a feature that this operating system lacks,
// said with a message that begins with "operating system: ".
package main

import (
	"fmt"
	"os"
)

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	if !s.finish() {
		os.Exit(1)
	}
}
