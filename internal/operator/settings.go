package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"remit/internal/chains"
	"remit/internal/settings"
	"remit/internal/store"
)

// Settings is `remit settings`.
type Settings struct {
	Show    settingsShow    `cmd:"" help:"Show every setting, as lines that apply reads."`
	Set     settingsSet     `cmd:"" help:"Change settings. Requests that come 30 seconds later are judged by them."`
	History settingsHistory `cmd:"" help:"Show the last 50 versions, newest first: who changed what, and why."`
	Apply   settingsApply   `cmd:"" help:"Make the settings those of a file, which names every one."`
	Confirm settingsConfirm `cmd:"" help:"Confirm the settings of a restored table. Live payments wait for it."`
	Import  settingsImport  `cmd:"" help:"Store the first settings, from the parameters of a stack that an older version has deployed."`
	Export  settingsExport  `cmd:"" help:"Print the parameters of an older template that equal the settings, for going back."`
}

// applied begins the reason of every version that apply has written.
const applied = "applied:"

// A settingsTable is the settings of one table and the version that would follow.
type settingsTable interface {
	kind() string
	stamp() settings.Stamp // of the current version: its number, if it is unusable
	unusable() error
	next(name, value string) (known bool, err error)
	renew()                     // has the next version start from nothing
	refused() error             // why the next version may not be stored
	changes() []settings.Change // that the next version makes
	values() []settings.Setting // of the next version
	write(ctx context.Context, by settings.Stamp) error
	versions(ctx context.Context) ([]settingsVersion, error)
}

// A settingsVersion is a stored version and its differences from two others.
type settingsVersion struct {
	settings.Stamp
	values  map[string]string
	changes []settings.Change // that it made
	since   []settings.Change // between it and the current one
}

// settingsOf is a settingsTable.
type settingsOf[T any] struct {
	settings.Table[T]
	name           string
	current, later T
	err            error // why current cannot be obeyed
	refuse         func(T) error
	store          func(context.Context, T) error
	history        func(context.Context) ([]T, error)
}

func (s *settingsOf[T]) kind() string               { return s.name }
func (s *settingsOf[T]) stamp() settings.Stamp      { return *s.Stamp(&s.current) }
func (s *settingsOf[T]) unusable() error            { return s.err }
func (s *settingsOf[T]) values() []settings.Setting { return s.Text(s.later) }
func (s *settingsOf[T]) changes() []settings.Change { return s.Diff(s.current, s.later) }

func (s *settingsOf[T]) next(name, value string) (known bool, err error) {
	if known = slices.Contains(s.Names(), name); known {
		s.later, err = s.Set(s.later, name, value)
	}
	return known, err
}

func (s *settingsOf[T]) renew() {
	var none T
	s.later = none
}

func (s *settingsOf[T]) refused() error {
	return errors.Join(s.Validate(s.later), s.refuse(s.later))
}

func (s *settingsOf[T]) write(ctx context.Context, by settings.Stamp) error {
	by.Version, by.Needs = s.stamp().Version, settings.Code
	v := s.later
	*s.Stamp(&v) = by
	return s.store(ctx, v)
}

func (s *settingsOf[T]) versions(ctx context.Context) (all []settingsVersion, err error) {
	stored, err := s.history(ctx)
	for i, v := range stored {
		listed := settingsVersion{Stamp: *s.Stamp(&v), values: s.Encode(v), since: s.Diff(v, s.current)}
		if i+1 < len(stored) {
			listed.changes = s.Diff(stored[i+1], v)
		}
		all = append(all, listed)
	}
	return all, err
}

// settings reads the settings of both tables. What cannot be obeyed is no error here.
func (d *deployment) settings(ctx context.Context) ([]settingsTable, error) {
	payments, err := d.payments()
	if err != nil {
		return nil, err
	}
	keys, err := d.keys()
	if err != nil {
		return nil, err
	}
	rules, err := payments.Rules(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of payments: %w", err)
	}
	ofKeys, unusable := keys.KeySettings(ctx)
	if unusable != nil && !settings.Unusable(unusable) {
		return nil, fmt.Errorf("reading the settings of keys: %w", unusable)
	}
	live := d.mode == "live" || chains.IsMain(d.chainID)
	p := &settingsOf[settings.Settings]{
		settings.Payments, "payments", rules.Settings, rules.Settings, rules.Unusable,
		func(s settings.Settings) error {
			switch unset, other := s.Unset(), rules.Are(store.Coin{ChainID: d.chainID, Token: d.asset.Contract}); {
			case other != nil:
				return other
			case live && len(unset) > 0:
				return fmt.Errorf("a live stack makes no payment without limits: set %s", strings.Join(unset, ", "))
			}
			return nil
		},
		payments.SetSettings, payments.SettingsHistory,
	}
	k := &settingsOf[settings.Keys]{
		settings.APIKeys, "keys", ofKeys, ofKeys, unusable,
		func(s settings.Keys) error {
			if live && s.Public {
				return errors.New("a live stack does not hand keys to strangers: set KeyCreation=operator")
			}
			return nil
		},
		keys.SetKeySettings, keys.KeySettingsHistory,
	}
	if errors.Is(p.err, settings.ErrMissing) {
		p.later = settings.Default()
	}
	if errors.Is(k.err, settings.ErrMissing) {
		k.later = settings.DefaultKeys(live)
	}
	return []settingsTable{p, k}, nil
}

// assign sets a value in the table that has a setting of that name.
func assign(tables []settingsTable, name, value string) error {
	var names []string
	for _, t := range tables {
		if known, err := t.next(name, value); known {
			return err
		}
		for _, s := range t.values() {
			names = append(names, s.Name)
		}
	}
	return fmt.Errorf("there is no setting %q: they are %s", name, strings.Join(names, ", "))
}

// usable returns why the settings of a table cannot be changed one by one.
func usable(t settingsTable) error {
	switch err := t.unusable(); {
	case errors.Is(err, settings.ErrNewer):
		return fmt.Errorf("settings of %s: %w: use the version of remit that wrote them", t.kind(), err)
	case errors.Is(err, settings.ErrDamaged):
		return fmt.Errorf("settings of %s: %w; write all of them: remit settings apply FILE --over %s=%d (remit settings history "+
			"--json has the versions before)",
			t.kind(), err, t.kind(), t.stamp().Version)
	}
	return nil
}

// write stores the next version of each table, one after the other, each if nobody has
// stored another since it was read. Between two the first alone is stored; the command
// is then given again. Afterwards it publishes what allows more than before.
func (d *deployment) write(ctx context.Context, tables []settingsTable, yes, confirms bool, why string) error {
	if len(tables) == 0 {
		return d.show([]any{}, "nothing changes")
	}
	var text strings.Builder
	loosened := map[settingsTable]string{}
	for _, t := range tables {
		if err := t.refused(); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		fmt.Fprintf(&text, "Settings of %s, version %d:\n", t.kind(), t.stamp().Version+1)
		if t.unusable() != nil || confirms {
			for _, s := range t.values() {
				fmt.Fprintf(&text, "  %s=%s\n", s.Name, s.Value)
			}
		} else {
			for _, c := range t.changes() {
				fmt.Fprintf(&text, "  %s: %q -> %q%s\n", c.Name, c.From, c.To, map[bool]string{true: "  LOOSENS A LIMIT"}[c.Loosens])
				if c.Loosens {
					loosened[t] += fmt.Sprintf("%s: %q -> %q\n", c.Name, c.From, c.To)
				}
			}
		}
		if errors.Is(t.unusable(), settings.ErrDamaged) {
			loosened[t] = fmt.Sprintf("the damaged settings of %s were replaced\n", t.kind())
		}
	}
	text.WriteString("Requests that come 30 seconds later are judged by them.")
	if err := d.agree(yes, text.String()); err != nil {
		return err
	}
	who, err := d.who(ctx)
	if err != nil {
		return fmt.Errorf("nothing was changed: asking who you are: %w", err)
	}
	done, said, stored := []map[string]any{}, "", ""
	by := settings.Stamp{At: time.Now(), Who: who[max(0, len(who)-256):], Why: why}
	for _, t := range tables {
		// A new version of unconfirmed settings is no confirmation of the others.
		by.Confirmed = confirms || t.stamp().Confirmed || t.unusable() != nil
		err := d.writeOne(ctx, t, by)
		if err == nil || !errors.Is(err, store.ErrChanged) { // stored, or nobody knows
			stored += loosened[t]
		}
		if err != nil && len(done) > 0 {
			err = fmt.Errorf("after those of payments were stored: %v", err) //nolint:errorlint // see Ended
		}
		if err != nil {
			return errors.Join(err, d.announce(ctx, stored, by))
		}
		done = append(done, map[string]any{"table": t.kind(), "version": t.stamp().Version + 1, "confirmed": by.Confirmed})
		said += fmt.Sprintf("settings of %s: version %d\n", t.kind(), t.stamp().Version+1)
		if !by.Confirmed && d.mode == "live" {
			said += "It is of a restored table: remit settings confirm lets live payments go on.\n"
		}
	}
	return errors.Join(d.announce(ctx, stored, by), d.show(done, said))
}

// writeOne stores the next version of a table. Of a write whose answer is lost the store
// may say that somebody else has stored another: the version is read again and known by
// its author and time.
func (d *deployment) writeOne(ctx context.Context, t settingsTable, by settings.Stamp) error {
	err := t.write(ctx, by)
	if !errors.Is(err, store.ErrChanged) {
		return err
	}
	again, failed := d.settings(ctx)
	for _, now := range again {
		s := now.stamp()
		if now.kind() == t.kind() && s.Version == t.stamp().Version+1 && s.At.Equal(by.At) && s.Who == by.Who {
			return nil
		}
	}
	if failed != nil {
		return fmt.Errorf("settings of %s: whether they were stored is not known; look with remit settings show: %v", t.kind(),
			failed) //nolint:errorlint // no refusal
	}
	return fmt.Errorf("settings of %s: %w: look again with remit settings show, then repeat the command", t.kind(), err)
}

// announce publishes what allows more than before.
func (d *deployment) announce(ctx context.Context, loosened string, by settings.Stamp) error {
	if loosened == "" {
		return nil
	}
	if err := d.publish(ctx, "Remit "+d.Stack+": a limit was loosened", fmt.Sprintf("%sby %s: %s\n", loosened, by.Who, by.Why)); err != nil {
		return fmt.Errorf("the change is made, and could not be published to the alarm topic, so tell the others: %v",
			err) //nolint:errorlint // no refusal
	}
	return nil
}

type settingsShow struct{ Target }

// Run shows the current version of each table.
func (c *settingsShow) Run(ctx context.Context, d *deployment) error {
	tables, err := d.settings(ctx)
	if err != nil {
		return err
	}
	all, text := map[string]any{}, ""
	for _, t := range tables {
		s := t.stamp()
		if t.unusable() != nil {
			all[t.kind()] = map[string]any{"version": s.Version, "error": t.unusable().Error()}
			err = errors.Join(err, fmt.Errorf("settings of %s, version %d: %w", t.kind(), s.Version, t.unusable()))
			continue
		}
		values := map[string]string{}
		text += fmt.Sprintf("# %s\n", titled(t.kind(), s))
		for _, v := range t.values() {
			values[v.Name] = v.Value
			text += fmt.Sprintf("# %s\n%s=%s\n", v.About, v.Name, v.Value)
		}
		all[t.kind()] = row(s, map[string]any{"values": values})
	}
	return errors.Join(d.show(all, text), err)
}

// titled is a line about a version.
func titled(kind string, s settings.Stamp) string {
	return fmt.Sprintf("%s, version %d, %s, by %q: %q%s", kind, s.Version, stamp(s.At), s.Who, s.Why,
		map[bool]string{false: " (not confirmed for this table)"}[s.Confirmed])
}

// row adds a version's stamp to its JSON.
func row(s settings.Stamp, of map[string]any) map[string]any {
	of["version"], of["confirmed"], of["at"], of["who"], of["reason"] = s.Version, s.Confirmed, stamp(s.At), s.Who, s.Why
	return of
}

type settingsSet struct {
	Target
	Values []string `arg:"" optional:"" placeholder:"NAME=VALUE" help:"What to change. Without any, a new stack gets the defaults."`
	Reason string   `help:"Why, for the history."`
	Yes    bool     `help:"Do not ask."`
}

// Run stores the next version of each table that has one of the settings, or has none yet.
func (c *settingsSet) Run(ctx context.Context, d *deployment) error {
	tables, err := d.settings(ctx)
	if err != nil {
		return err
	}
	if strings.HasPrefix(c.Reason, applied) {
		return fmt.Errorf("a --reason that begins with %q is of remit settings apply: word it differently", applied)
	}
	given := map[string]bool{}
	for _, pair := range c.Values {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || given[name] {
			return fmt.Errorf("%q: give each setting once, as NAME=VALUE", pair)
		}
		given[name] = true
		if err := assign(tables, name, value); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	var changed []settingsTable
	for _, t := range tables {
		named := slices.ContainsFunc(t.values(), func(s settings.Setting) bool { return given[s.Name] })
		if err := usable(t); err != nil && named {
			return err
		}
		if errors.Is(t.unusable(), settings.ErrMissing) || named && len(t.changes()) > 0 {
			changed = append(changed, t)
		}
	}
	return d.write(ctx, changed, c.Yes, false, c.Reason)
}

type settingsHistory struct{ Target }

// Run shows the versions that are kept, those that cannot be read left out.
func (c *settingsHistory) Run(ctx context.Context, d *deployment) error {
	tables, err := d.settings(ctx)
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
			text += titled(t.kind(), v.Stamp) + "\n"
			for _, c := range v.changes {
				changes = append(changes, map[string]any{"name": c.Name, "from": c.From, "to": c.To, "loosens": c.Loosens})
				text += fmt.Sprintf("  %s: %q -> %q\n", c.Name, c.From, c.To)
			}
			rows = append(rows, row(v.Stamp, map[string]any{"values": v.values, "changes": changes}))
		}
		all[t.kind()] = rows
	}
	return d.show(all, text)
}

type settingsApply struct {
	Target
	File string            `arg:"" help:"Every setting: lines NAME=VALUE (# begins a comment), or an object of YAML or JSON."`
	Over map[string]uint64 `placeholder:"TABLE=VERSION" help:"Replace this version of payments or keys although the last apply did not write its values."`
	Yes  bool              `help:"Do not ask."`
}

// Run replaces the settings, unless somebody has changed them by hand since the last apply.
func (c *settingsApply) Run(ctx context.Context, d *deployment) error {
	values, err := settingsFile(c.File)
	if err != nil {
		return err
	}
	tables, err := d.settings(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		t.renew()
		for _, s := range t.values() {
			if _, named := values[s.Name]; !named {
				err = errors.Join(err, fmt.Errorf("%s lacks %s: a file names every setting (remit settings show prints them)", c.File, s.Name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		err = errors.Join(err, assign(tables, name, values[name]))
	}
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	var changed []settingsTable
	for _, t := range tables {
		changes, err := c.over(ctx, t)
		if err != nil {
			return err
		}
		if changes {
			changed = append(changed, t)
		}
	}
	return d.write(ctx, changed, c.Yes, false, applied+filepath.Base(c.File))
}

// over reports whether the file is to be stored: it is not if its values are those that
// apply has stored last, and still in force. It is an error if they would undo a change by
// hand, or replace damaged settings, of a version that the operator does not name.
func (c *settingsApply) over(ctx context.Context, t settingsTable) (bool, error) {
	version := t.stamp().Version
	named, given := c.Over[t.kind()]
	switch err := t.unusable(); {
	case errors.Is(err, settings.ErrMissing):
		return true, nil
	case errors.Is(err, settings.ErrDamaged) && given && named == version:
		return true, nil
	case err != nil:
		return false, usable(t)
	}
	versions, err := t.versions(ctx)
	if err != nil {
		return false, err
	}
	last := slices.IndexFunc(versions, func(v settingsVersion) bool { return strings.HasPrefix(v.Why, applied) })
	ours := last >= 0 && len(versions[last].since) == 0
	switch equal := len(t.changes()) == 0; {
	case equal, ours, given && named == version:
		return !equal || !ours, nil
	}
	return false, fmt.Errorf("nothing was changed: the settings of %s were not changed by the last apply: %s; take that into the "+
		"file, or say --over %s=%d",
		t.kind(), titled("the current ones are "+t.kind(), t.stamp()), t.kind(), version)
}

// lines is a file of NAME=VALUE.
var lines = regexp.MustCompile(`^(\s*(#.*)?(\n|$)|\s*\w+=.*(\n|$))*$`)

// settingsFile reads a file of settings.
func settingsFile(path string) (values map[string]string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !lines.Match(text) {
		if err := yaml.Unmarshal(text, &values); err != nil {
			return nil, fmt.Errorf("%s has neither lines NAME=VALUE nor an object of YAML or JSON: %w", path, err)
		}
		return values, nil
	}
	values = map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("%s has %s twice", path, name)
		}
		values[name] = value
	}
	return values, nil
}
