package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"remit/bench/report"
)

// page writes docs/performance.md from the results there are.
func (b *bench) page() error {
	var results []*report.Result
	for _, mark := range benchmarks() {
		r, err := report.Load(b.results, mark.name)
		switch {
		case errors.Is(err, report.ErrNone):
		case err != nil:
			return err
		default:
			results = append(results, r)
		}
	}
	path := filepath.Join(b.root, "docs", "performance.md")
	if err := os.WriteFile(path, []byte(report.Page(results, "../bench/results")), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
