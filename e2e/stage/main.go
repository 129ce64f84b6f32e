// Command stage keeps the template deployed on a local AWS until it is
// interrupted, for people who practise an operator's tasks: `make stage`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/remit-payouts/remit/e2e/localaws"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

// run deploys, lists the addresses, and takes everything away when ctx ends.
func run(ctx context.Context) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "remit-stage-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin := filepath.Join(root, ".cache/bin")
	s, err := localaws.Deploy(ctx, localaws.Config{Root: root, Dir: dir, Progress: os.Stdout, Remit: filepath.Join(bin, "remit")})
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // the interrupted step's error adds nothing
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	leave, err := s.Invite(ctx, os.Stdout, bin)
	if err != nil {
		return err
	}
	<-ctx.Done()
	fmt.Println("Ending the local AWS.")
	return leave()
}
