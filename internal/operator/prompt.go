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
func askSecret(prompt string) (string, error) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprint(os.Stderr, prompt)
		line, err := term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
		return strings.TrimSpace(string(line)), err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if line == "" && err != nil {
		return "", err
	}
	return strings.TrimSpace(line), nil
}
