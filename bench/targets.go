package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"

	"gopkg.in/yaml.v3"
)

// A target is a limit of one measured value, as targets.yaml explains.
type target struct {
	Section, Name string
	Sign          string // "≤" or "≥"
	Limit         float64
	Format        string
	Of, Unit, Per string
}

//go:embed targets.yaml
var targetsText []byte

func readTargets() (targets []target, err error) {
	d := yaml.NewDecoder(bytes.NewReader(targetsText))
	d.KnownFields(true)
	if err := d.Decode(&targets); err != nil {
		return nil, fmt.Errorf("reading targets.yaml: %w", err)
	}
	return targets, nil
}

// judge returns the value of a target and the verdict on it.
func (t target) judge(r *results) (got, verdict string) {
	v := r.value(t.Of, t.Unit)
	if t.Per != "" {
		v /= r.value(t.Per, t.Unit)
	}
	switch {
	case math.IsNaN(v):
		return "", "not measured"
	case t.Sign == "≤" && v <= t.Limit, t.Sign == "≥" && v >= t.Limit:
		return fmt.Sprintf(t.Format, v), "met"
	default:
		return fmt.Sprintf(t.Format, v), "**missed**"
	}
}
