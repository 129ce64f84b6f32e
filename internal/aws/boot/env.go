package boot

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/deployment/chains"
)

// Env is the environment that a function starts in. Reading a variable that is missing or malformed records that and
// returns a zero value, so that one failed start names every variable that is wrong; Err has them all.
type Env struct {
	// AWS is the configuration for clients of the AWS SDK.
	AWS aws.Config
	// Now is the clock: time.Now, unless a test sets another.
	Now func() time.Time

	lookup func(name string) string
	errs   []error
}

// OpenWith reads an environment in which lookup returns a variable's value, ""
// if it is not set: template.yaml sets variables to "" that AWS leaves out.
func OpenWith(lookup func(string) string) *Env {
	e := &Env{Now: time.Now, lookup: lookup}
	e.AWS = e.awsConfig()
	return e
}

// Err returns every problem met while reading e, or nil.
func (e *Env) Err() error { return errors.Join(e.errs...) }

// String returns the value of a required variable.
func (e *Env) String(name string) string {
	v := e.lookup(name)
	if v == "" {
		e.errs = append(e.errs, fmt.Errorf("%s is not set", name))
	}
	return v
}

// Optional returns the value of a variable, or otherwise if it is not set.
func (e *Env) Optional(name, otherwise string) string {
	return cmp.Or(e.lookup(name), otherwise)
}

// Int returns the value of a required variable that is a decimal integer.
func (e *Env) Int(name string) int { return Parse(e, name, strconv.Atoi) }

// Parse returns the value that parse reads from a required variable.
func Parse[T any](e *Env, name string, parse func(string) (T, error)) T {
	var zero T
	text := e.String(name)
	if text == "" {
		return zero
	}
	v, err := parse(text)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s: %w", name, err))
		return zero
	}
	return v
}

// Closed keeps a function from starting on a stack with real money that is in test mode or unwatched, also where the
// template's Rules were not asked: it records what chains.Deployment calls open, next to missing variables.
func Closed(env *Env) chains.Deployment {
	d := chains.Deployment{Environment: env.String("ENVIRONMENT"), Mode: env.String("MODE"), AlarmTopic: env.Optional("ALARM_TOPIC_ARN", "")}
	env.errs = append(env.errs, d.Open()...)
	return d
}
