package operator

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// errDeclined reports that the operator did not consent.
var errDeclined = errors.New("nothing was done")

// agree shows the consequences of a command and asks for consent. Without a
// terminal to ask on, consent is --yes.
func agree(yes bool, consequences string) error {
	fmt.Fprintln(os.Stderr, consequences)
	if yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return fmt.Errorf("%w: say --yes to do it without being asked", errDeclined)
	}
	fmt.Fprint(os.Stderr, "Go on? [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return errDeclined
	}
	return nil
}

// askSecret reads a line from a terminal without showing it, or from a pipe.
func askSecret(prompt string) ([]byte, error) {
	if stdin := int(os.Stdin.Fd()); term.IsTerminal(stdin) {
		fmt.Fprint(os.Stderr, prompt)
		defer fmt.Fprintln(os.Stderr)
		return term.ReadPassword(stdin)
	}
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if len(line) > 0 { // a last line may have no end
		err = nil
	}
	return line, err
}
