package boot

import "github.com/remit-payouts/remit/internal/deployment/chains"

// Closed keeps a function from starting on a stack with real money that is in test mode or unwatched, also where the
// template's Rules were not asked: it records what chains.Deployment calls open, next to missing variables.
func Closed(env *Env) chains.Deployment {
	d := chains.Deployment{Environment: env.String("ENVIRONMENT"), Mode: env.String("MODE"), AlarmTopic: env.Optional("ALARM_TOPIC_ARN", "")}
	env.errs = append(env.errs, d.Open()...)
	return d
}
