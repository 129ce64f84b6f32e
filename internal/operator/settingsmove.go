package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sns"

	"remit/internal/settings"
)

type settingsConfirm struct {
	Target
	Yes bool `help:"Do not ask."`
}

// Run confirms the settings that it has shown, and no others.
func (c *settingsConfirm) Run(ctx context.Context, d *deployment) error {
	tables, err := d.settings(ctx)
	if err != nil {
		return err
	}
	var unconfirmed []settingsTable
	for _, t := range tables {
		if t.unusable() != nil {
			return fmt.Errorf("settings of %s: %w", t.kind(), t.unusable())
		}
		if !t.stamp().Confirmed {
			unconfirmed = append(unconfirmed, t)
		}
	}
	return d.write(ctx, unconfirmed, c.Yes, true, "confirmed")
}

type settingsImport struct {
	Target
	Yes bool `help:"Do not ask."`
}

// Run stores the first version of each table that has none, from the deployed parameters.
func (c *settingsImport) Run(ctx context.Context, d *deployment) error {
	a, onAWS := d.platform.(*account)
	if !onAWS {
		return errors.New("remit local has its first settings from its flags")
	}
	tables, err := d.settings(ctx)
	if err != nil {
		return err
	}
	var first []settingsTable
	for _, t := range tables {
		if !errors.Is(t.unusable(), settings.ErrMissing) {
			continue
		}
		for _, s := range t.values() {
			value, there := a.parameters[s.Name]
			n, _ := strconv.Atoi(value)
			switch {
			case !there:
				return fmt.Errorf("stack %s has no parameter %s: import before the new template is deployed, or write all of them (remit "+
					"settings apply)", d.Stack, s.Name)
			case s.Name == "RecipientHoldSeconds" && value == "":
				value = s.Value // the default of the mode, as the older version has it
			case s.Name == "NonceWindow" && n > settings.MaxWindow:
				return fmt.Errorf("nothing was changed: NonceWindow is %d, and remit recover covers windows up to %d: deploy the version "+
					"that runs with NonceWindow=%[2]d, "+
					"wait until no wallet has more in flight (remit wallet list), and import again", n, settings.MaxWindow)
			}
			if _, err := t.next(s.Name, value); err != nil {
				return fmt.Errorf("nothing was changed: the parameter %w", err)
			}
		}
		first = append(first, t)
	}
	if len(first) == 0 {
		return errors.New("nothing was changed: the settings are stored already (remit settings show)")
	}
	return d.write(ctx, first, c.Yes, true, "imported from the stack's parameters")
}

type settingsExport struct{ Target }

// Run prints the settings as parameters.
func (c *settingsExport) Run(ctx context.Context, d *deployment) error {
	tables, err := d.settings(ctx)
	if err != nil {
		return err
	}
	values, pairs := map[string]string{}, []string{}
	for _, t := range tables {
		if t.unusable() != nil {
			return fmt.Errorf("settings of %s: %w", t.kind(), t.unusable())
		}
		for _, s := range t.values() {
			values[s.Name] = s.Value
			pairs = append(pairs, s.Name+"="+cmp.Or(s.Value, `""`))
		}
	}
	return d.show(values, strings.Join(pairs, " "))
}

// settingsHold finds settings that payments or keys are not made by.
func (e *examination) settingsHold(ctx context.Context) (string, error) {
	tables, err := e.settings(ctx)
	var saw []string
	for _, t := range tables {
		saw = append(saw, fmt.Sprintf("%s at version %d", t.kind(), t.stamp().Version))
		unfit := t.unusable()
		if unfit == nil {
			unfit = t.refused()
		}
		if unfit == nil && !t.stamp().Confirmed && e.mode == "live" {
			unfit = errors.New("not confirmed for this table, which was restored")
		}
		if unfit != nil {
			err = errors.Join(err, fmt.Errorf("%s, version %d: %w", t.kind(), t.stamp().Version, unfit))
		}
	}
	return strings.Join(saw, ", "), err
}

// publish sends a message to the topic of urgent alarms, or else to that of the others.
func (a *account) publish(ctx context.Context, subject, text string) error {
	topic := a.topic()
	if topic == "" {
		return nil
	}
	subject = subject[:min(len(subject), 100)] // as many as SNS takes
	_, err := sns.NewFromConfig(a.aws).Publish(ctx, &sns.PublishInput{TopicArn: &topic, Subject: &subject, Message: &text})
	return err
}

// topic returns the ARN of the topic of urgent alarms, if there is one.
func (a *account) topic() string {
	return cmp.Or(a.parameters["UrgentTopicArn"], a.parameters["AlarmTopicArn"])
}

// publish does nothing: a stack on one machine has no alarms.
func (*conversation) publish(context.Context, string, string) error { return nil }
