// Package setting has the settings of a stack, which two tables keep, and the commands that show and change them.
package setting

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Commands is `remit settings`.
type Commands struct {
	Show    show                  `cmd:"" help:"Show every setting, in lines that apply reads."`
	Set     change.Command[set]   `cmd:"" help:"Change settings, from 30 seconds later on." example:"DailyLimit=250000 --reason x"`
	History history               `cmd:"" help:"Show the last 50 versions, newest first: who changed what, and why."`
	Apply   change.Command[apply] `cmd:"" help:"Replace all settings by the values in a file." example:"settings.env"`
}

// applied begins the reason of every version that apply has written.
const applied = "applied:"

// A Table is the settings of one table and the version that would follow.
type Table struct {
	Kind     string                    // payments or keys
	Stamp    settings.Stamp            // of the current version: its number, if it is unusable
	Unusable error                     // why the current version cannot be obeyed
	Now      map[string]string         // the values of the current version
	Refused  func() error              // why the next version may not be stored
	values   func() []settings.Setting // of the next version
	assign   func(name, value string) error
	changes  func() []settings.Change // that the next version makes
	write    func(ctx context.Context, by settings.Stamp) error
	versions func(ctx context.Context) ([]version, error)
}

// A version is a stored version and the changes that it made.
type version struct {
	settings.Stamp
	values  map[string]string
	changes []settings.Change
}

// table returns the settings of a table, whose next version is next until one is assigned.
func table[T any](kind string, of settings.Table[T], current, next T, unusable error, refuse func(T) error,
	store func(context.Context, T) error, history func(context.Context) ([]T, error)) *Table {
	if !errors.Is(unusable, settings.ErrMissing) {
		next = current
	}
	stamp := *of.Stamp(&current)
	return &Table{
		Kind: kind, Stamp: stamp, Unusable: unusable, Now: of.Encode(current),
		Refused: func() error { return errors.Join(of.Validate(next), refuse(next)) },
		values:  func() []settings.Setting { return of.Text(next) },
		changes: func() []settings.Change { return of.Diff(current, next) },
		assign: func(name, value string) (err error) {
			next, err = of.Set(next, name, value)
			return err
		},
		write: func(ctx context.Context, by settings.Stamp) error {
			by.Version, by.Needs = stamp.Version, settings.Code
			v := next
			*of.Stamp(&v) = by
			return store(ctx, v)
		},
		versions: func(ctx context.Context) (all []version, err error) {
			stored, err := history(ctx)
			for i, v := range stored {
				listed := version{Stamp: *of.Stamp(&v), values: of.Encode(v)}
				if i+1 < len(stored) {
					listed.changes = of.Diff(stored[i+1], v)
				}
				all = append(all, listed)
			}
			return all, err
		},
	}
}

// next returns the values of the next version.
func (t *Table) next() map[string]string {
	values := map[string]string{}
	for _, s := range t.values() {
		values[s.Name] = s.Value
	}
	return values
}

func (t *Table) has(name string) bool { _, has := t.next()[name]; return has }

// title describes a version of the table in a line.
func (t *Table) title(s settings.Stamp) string {
	return fmt.Sprintf("%s, version %d, %s, by %q: %q%s", t.Kind, s.Version, deployed.Stamp(s.At), s.Who, s.Why,
		map[bool]string{false: " (not confirmed for this table)"}[s.Confirmed])
}

// Read reads the settings of both tables. Unusable settings are no error here.
func Read(ctx context.Context, d *deployed.Deployment) ([]*Table, error) {
	rules, err := d.Payments.Rules(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of payments: %w", err)
	}
	ofKeys, unusable := d.Keys.KeySettings(ctx)
	if unusable != nil && !settings.Unusable(unusable) {
		return nil, fmt.Errorf("reading the settings of keys: %w", unusable)
	}
	live := d.Mode == "live" || chains.IsMain(d.ChainID)
	rail := rules.Rail(d.Config.Coin())
	return []*Table{
		table("payments", settings.Payments, rail.Settings, settings.Default(d.Rail), rail.Unusable, func(s settings.Settings) error {
			if unset := s.Unset(); live && len(unset) > 0 {
				return fmt.Errorf("a live stack makes no payment without limits; set %s", strings.Join(unset, ", "))
			}
			return nil
		}, d.Payments.SetSettings, func(ctx context.Context) ([]settings.Settings, error) {
			return d.Payments.SettingsHistory(ctx, rail.Coin)
		}),
		table("keys", settings.APIKeys, ofKeys, settings.DefaultKeys(live), unusable, func(s settings.Keys) error {
			if live && s.Public {
				return errors.New("a live stack does not hand keys to strangers; set KeyCreation=operator")
			}
			return nil
		}, d.Keys.SetKeySettings, d.Keys.KeySettingsHistory),
	}, nil
}

// assigned reads texts NAME=VALUE, each of another setting, and both tables, and has their next versions have the values.
func assigned(ctx context.Context, d *deployed.Deployment, texts []string) ([]*Table, map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := values[name]; !ok || twice {
			return nil, nil, fmt.Errorf("%q: give each setting once, as NAME=VALUE", text)
		}
		values[name] = value
	}
	tables, err := Read(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(tables, func(t *Table) bool { return t.has(name) })
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("there is no setting %q; find its name with remit settings show", name))
			continue
		}
		err = errors.Join(err, tables[i].assign(name, values[name]))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("nothing was changed: %w", err)
	}
	return tables, values, nil
}

// A writing is a change of settings that was not refused.
type writing struct {
	*deployed.Deployment
	tables   []*Table
	confirms bool
	why      string
	loosened map[*Table]string // settings that allow more
}

// write is the change that stores the next version of each table.
func write(d *deployed.Deployment, tables []*Table, confirms bool, why string) (change.Change, error) {
	if len(tables) == 0 {
		return change.None([]any{}, "nothing changes"), nil
	}
	text, w := "", writing{d, tables, confirms, why, map[*Table]string{}}
	for _, t := range tables {
		if err := t.Refused(); err != nil {
			return change.Change{}, fmt.Errorf("nothing was changed: %w", err)
		}
		text += fmt.Sprintf("Settings of %s, version %d:\n", t.Kind, t.Stamp.Version+1)
		if t.Unusable != nil || confirms {
			for _, s := range t.values() {
				text += fmt.Sprintf("  %s=%s\n", s.Name, s.Value)
			}
		}
		if errors.Is(t.Unusable, settings.ErrDamaged) {
			w.loosened[t] = fmt.Sprintf("the damaged settings of %s were replaced\n", t.Kind)
		}
		if t.Unusable != nil {
			continue
		}
		for _, c := range t.changes() {
			line := fmt.Sprintf("%s: %q -> %q", c.Name, c.From, c.To)
			if text += "  " + line; c.Loosens {
				text += "  LOOSENS A LIMIT"
				w.loosened[t] += line + "\n"
			}
			text += "\n"
		}
	}
	text += "Requests that come 30 seconds later are judged by them."
	return change.Change{Consequences: text, Apply: w.apply}, nil
}

// apply stores the next version of each table in turn, if no other was stored since it was read, and publishes the
// settings that allow more than before. A crash between them leaves only the first stored: run it again.
func (w writing) apply(ctx context.Context) (change.Answer, error) {
	who, err := w.Who(ctx)
	if err != nil {
		return change.Answer{}, fmt.Errorf("nothing was changed: asking who you are: %w", err)
	}
	done, text, stored := []map[string]any{}, "", ""
	by := settings.Stamp{At: time.Now(), Who: who[max(0, len(who)-256):], Why: w.why}
	for _, t := range w.tables {
		// A new version of unconfirmed settings is no confirmation of the others.
		by.Confirmed = w.confirms || t.Stamp.Confirmed || t.Unusable != nil
		err := t.write(ctx, by)
		if errors.Is(err, store.ErrChanged) {
			err = fmt.Errorf("settings of %s: %w; read them with remit settings show, then repeat the command", t.Kind, err)
		} else { // stored, or nobody knows
			stored += w.loosened[t]
		}
		if err != nil && len(done) > 0 {
			err = fmt.Errorf("after those of payments were stored: %v", err) //nolint:errorlint // no refusal
		}
		if err != nil {
			return change.Answer{}, errors.Join(err, w.announce(ctx, stored, by))
		}
		version := t.Stamp.Version + 1
		done = append(done, map[string]any{"table": t.Kind, "version": version, "confirmed": by.Confirmed})
		text += fmt.Sprintf("settings of %s: version %d\n", t.Kind, version)
		if !by.Confirmed && w.Mode == "live" {
			text += "It is of a restored table: remit settings set --confirm lets live payments go on.\n"
		}
	}
	return change.Answer{JSON: done, Text: text}, w.announce(ctx, stored, by)
}

func (w writing) announce(ctx context.Context, loosened string, by settings.Stamp) error {
	if loosened == "" {
		return nil
	}
	text := fmt.Sprintf("%sby %s: %s\n", loosened, by.Who, by.Why)
	if err := w.Publish(ctx, "Remit "+w.Stack+": a limit was loosened", text); err != nil {
		return fmt.Errorf("the change is made, and could not be published to the alarm topic, so tell the others: %v",
			err) //nolint:errorlint // no refusal
	}
	return nil
}

type show struct{ deployed.Target }

func (c *show) Run(ctx context.Context, d *deployed.Deployment) error {
	tables, err := Read(ctx, d)
	if err != nil {
		return err
	}
	all, text := map[string]any{}, ""
	for _, t := range tables {
		if t.Unusable != nil {
			all[t.Kind] = map[string]any{"version": t.Stamp.Version, "error": t.Unusable.Error()}
			err = errors.Join(err, fmt.Errorf("settings of %s, version %d: %w", t.Kind, t.Stamp.Version, t.Unusable))
			continue
		}
		text += fmt.Sprintf("# %s\n", t.title(t.Stamp))
		for _, v := range t.values() {
			text += fmt.Sprintf("# %s\n%s=%s\n", v.About, v.Name, v.Value)
		}
		all[t.Kind] = row(t.Stamp, map[string]any{"values": t.Now})
	}
	return errors.Join(d.Show(all, text), err)
}

// row adds a version's stamp to its JSON.
func row(s settings.Stamp, of map[string]any) map[string]any {
	maps.Copy(of, map[string]any{"version": s.Version, "confirmed": s.Confirmed, "at": deployed.Stamp(s.At),
		"who": s.Who, "reason": s.Why})
	return of
}

type set struct {
	Values  []string `arg:"" optional:"" placeholder:"NAME=VALUE" help:"Settings to change; none: the defaults."`
	Reason  string   `help:"Why, for the history."`
	Confirm bool     `help:"Confirm the settings of a restored table, which it shows. Live payments wait for it."`
}

// Change stores the next version of each table that has one of the settings, or has none yet, or is to be confirmed.
func (c set) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if strings.HasPrefix(c.Reason, applied) {
		return none, fmt.Errorf("a --reason that begins with %q is for remit settings apply; change its first words", applied)
	}
	tables, values, err := assigned(ctx, d, c.Values)
	if err != nil {
		return none, err
	}
	var changed []*Table
	for _, t := range tables {
		named := slices.ContainsFunc(slices.Collect(maps.Keys(values)), t.has)
		switch {
		case errors.Is(t.Unusable, settings.ErrMissing):
			changed = append(changed, t)
		case t.Unusable != nil && (named || c.Confirm):
			return none, unusable(t)
		case named && len(t.changes()) > 0, c.Confirm && !t.Stamp.Confirmed:
			changed = append(changed, t)
		}
	}
	return write(d, changed, c.Confirm, c.Reason)
}

type history struct{ deployed.Target }

// Run shows the kept versions, except unreadable ones.
func (c *history) Run(ctx context.Context, d *deployed.Deployment) error {
	tables, err := Read(ctx, d)
	if err != nil {
		return err
	}
	all, text := map[string]any{}, ""
	for _, t := range tables {
		versions, err := t.versions(ctx)
		if err != nil {
			return err
		}
		rows := []map[string]any{}
		for _, v := range versions {
			changes := []map[string]any{}
			text += t.title(v.Stamp) + "\n"
			for _, c := range v.changes {
				changes = append(changes, map[string]any{"name": c.Name, "from": c.From, "to": c.To, "loosens": c.Loosens})
				text += fmt.Sprintf("  %s: %q -> %q\n", c.Name, c.From, c.To)
			}
			rows = append(rows, row(v.Stamp, map[string]any{"values": v.values, "changes": changes}))
		}
		all[t.Kind] = rows
	}
	return d.Show(all, text)
}

type apply struct {
	File string `arg:"" help:"Every setting, in lines NAME=VALUE; # begins a comment."`
}

// Change replaces the settings, unless an operator has changed them by hand since the last apply.
func (c apply) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return none, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	tables, values, err := assigned(ctx, d, lines)
	if err != nil {
		return none, fmt.Errorf("reading %s: %w", c.File, err)
	}
	var changed []*Table
	for _, t := range tables {
		for _, s := range t.values() {
			if _, named := values[s.Name]; !named {
				err = errors.Join(err, fmt.Errorf("%s lacks %s; add every setting of remit settings show", c.File, s.Name))
			}
		}
		differs, failed := differs(ctx, t)
		if err = errors.Join(err, failed); differs {
			changed = append(changed, t)
		}
	}
	if err != nil {
		return none, err
	}
	return write(d, changed, false, applied+filepath.Base(c.File))
}

// differs reports whether to store the next version, from a file: not if apply stored its values last and they are in
// force. To undo a change by hand is an error. Damaged settings are judged by the newest version kept.
func differs(ctx context.Context, t *Table) (bool, error) {
	switch {
	case errors.Is(t.Unusable, settings.ErrMissing):
		return true, nil
	case errors.Is(t.Unusable, settings.ErrNewer):
		return false, unusable(t)
	}
	versions, err := t.versions(ctx)
	if err != nil {
		return false, err
	}
	stamp, now, next, damaged := t.Stamp, t.Now, t.next(), t.Unusable != nil
	if damaged && len(versions) == 0 {
		return true, nil
	} else if damaged {
		stamp, now = versions[0].Stamp, versions[0].values
	}
	last := slices.IndexFunc(versions, func(v version) bool { return strings.HasPrefix(v.Why, applied) })
	ours := last >= 0 && maps.Equal(versions[last].values, now)
	if equal := maps.Equal(now, next); equal || ours {
		return !equal || !ours || damaged, nil
	}
	return false, fmt.Errorf("nothing was changed: the settings have changed since the last apply: %s; change the "+
		"file to match, or set them back with remit settings set", t.title(stamp))
}

// unusable is the error of a change that unusable settings do not take.
func unusable(t *Table) error {
	step := "remit settings apply FILE to write all of them (remit settings history has the versions before)"
	if errors.Is(t.Unusable, settings.ErrNewer) {
		step = "the version of remit that wrote them"
	}
	return fmt.Errorf("settings of %s: %w; use %s", t.Kind, t.Unusable, step)
}
