package boot

import (
	"errors"

	"remit/internal/chains"
	"remit/internal/token"
)

// Closed keeps a function from starting on a stack with real money that is open to
// strangers, without limits or unwatched, also where the template's Rules were not
// asked: it records what chains.Deployment says is open, next to variables that
// are missing.
func Closed(env *Env) {
	env.refuse(chains.Deployment{
		Environment: env.String("ENVIRONMENT"), Mode: env.String("MODE"), KeyCreation: env.String("KEY_CREATION"), ChainID: env.Uint64("CHAIN_ID"),
		Minimum: Parse(env, "AMOUNT_MINIMUM", token.ParseAmount), Maximum: Parse(env, "AMOUNT_MAXIMUM", token.ParseAmount),
		Daily: Parse(env, "DAILY_LIMIT", token.ParseAmount), AlarmTopic: env.Optional("ALARM_TOPIC_ARN", ""),
	}.Open())
}

func (e *Env) refuse(reasons []error) { e.errs = append(e.errs, errors.Join(reasons...)) }
