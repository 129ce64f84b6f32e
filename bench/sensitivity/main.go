// Command sensitivity removes one protecting rule after another from the code
// and checks that a test notices. A rule whose removal nothing catches is either
// not needed or not tested.
//
//	go run ./bench/sensitivity              every rule, some ten seconds each
//	go run ./bench/sensitivity -run guard   those whose name or file contains "guard"
//
// The files themselves are left alone: the compiler is given an overlay.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"remit/bench/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sensitivity:", err)
		os.Exit(1)
	}
}

// errSurvived reports rules that nobody missed.
var errSurvived = errors.New("removing a rule went unnoticed")

func run(ctx context.Context) error {
	only := flag.String("run", "", "only the rules whose name or file contains this")
	flag.Parse()
	root, err := lab.Root()
	if err != nil {
		return err
	}
	survived, n := 0, 0
	for _, r := range rules() {
		if !strings.Contains(r.name, *only) && !strings.Contains(r.file, *only) {
			continue
		}
		n++
		began := time.Now()
		failed, err := r.remove(ctx, root)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		caught := strings.Join(failed, ", ")
		if len(failed) == 0 {
			survived++
			caught = "NOTHING"
		}
		fmt.Printf("%5.1f s  %-62s caught by %s\n", time.Since(began).Seconds(), r.name, caught)
	}
	fmt.Printf("%d rules, %d caught, %d not\n", n, n-survived, survived)
	if survived > 0 {
		return errSurvived
	}
	return nil
}
