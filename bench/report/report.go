// Package report is what a benchmark says: tables, figures, targets and plots,
// with the conditions they were measured under. It prints them, keeps them as
// JSON beside the plots, and writes the page that shows them.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Result is what one benchmark found.
type Result struct {
	Name       string             `json:"name"` // of the benchmark and of its files
	Title      string             `json:"title"`
	At         time.Time          `json:"at"`
	Took       float64            `json:"took_seconds"`
	Conditions Conditions         `json:"conditions"`
	Setup      string             `json:"setup"` // what was measured and how, in a paragraph
	Tables     []Table            `json:"tables"`
	Targets    []Target           `json:"targets"`
	Figures    map[string]float64 `json:"figures"` // what other benchmarks take up, with units in the names
	Plots      []Plot             `json:"plots"`
	Notes      []string           `json:"notes"` // what the figures mean, and what they do not say
}

// A Plot is one picture. Its SVG lies in a file of its own.
type Plot struct {
	File    string `json:"file"` // its base name
	Caption string `json:"caption"`
	SVG     string `json:"-"`
}

// A Target is a figure that somebody has set.
type Target struct {
	What  string `json:"what"`
	Limit string `json:"limit"`
	Got   string `json:"got"`
	Met   bool   `json:"met"`
	Why   string `json:"why,omitempty"` // where it is missed
}

// Figure keeps a number for other benchmarks.
func (r *Result) Figure(name string, value float64) {
	if r.Figures == nil {
		r.Figures = map[string]float64{}
	}
	r.Figures[name] = value
}

// AtMost adds a target that is met by a value not above limit. The format is
// for both numbers.
func (r *Result) AtMost(what, format string, got, limit float64) {
	r.Targets = append(r.Targets, Target{What: what, Limit: "≤ " + fmt.Sprintf(format, limit), Got: fmt.Sprintf(format, got), Met: got <= limit})
}

// AtLeast adds a target that is met by a value not below limit.
func (r *Result) AtLeast(what, format string, got, limit float64) {
	r.Targets = append(r.Targets, Target{What: what, Limit: "≥ " + fmt.Sprintf(format, limit), Got: fmt.Sprintf(format, got), Met: got >= limit})
}

// Because says why the target that was added last is missed, if it is.
func (r *Result) Because(format string, args ...any) {
	if last := &r.Targets[len(r.Targets)-1]; !last.Met {
		last.Why = fmt.Sprintf(format, args...)
	}
}

// Note adds a sentence.
func (r *Result) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Save writes the result and its plots to dir.
func (r *Result) Save(dir string) error {
	for _, p := range r.Plots {
		if err := os.WriteFile(filepath.Join(dir, p.File), []byte(p.SVG), 0o644); err != nil {
			return fmt.Errorf("saving a plot of %s: %w", r.Name, err)
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", r.Name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, r.Name+".json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving %s: %w", r.Name, err)
	}
	return nil
}

// Load reads the result of a benchmark from dir, or ErrNone.
func Load(dir, name string) (*Result, error) {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", name, err)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("loading %s: %w", name, err)
	}
	return &r, nil
}

// ErrNone reports a benchmark that has no result yet.
var ErrNone = errors.New("no result yet")
