// Package setting has the rails of a stack with their settings, and the commands that show and change them.
package setting

import (
	"cmp"
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
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Commands is `remit settings`.
type Commands struct {
	Show    show                  `cmd:"" help:"Show every setting, in lines that apply reads."`
	Set     change.Command[set]   `cmd:"" help:"Change settings." example:"DailyLimit=250000 --reason x"`
	History history               `cmd:"" help:"Show the last 50 versions, newest first: who changed what, and why."`
	Apply   change.Command[apply] `cmd:"" help:"Replace all settings by the values in a file." example:"settings.env"`
}

// applied begins the reason of every version that apply has written.
const applied = "applied:"

// A Table is the settings of a rail, and the version that would follow.
type Table struct {
	*deployed.Deployment
	Next    settings.Settings
	loosens string // the changes that allow more, in lines
}

// Of returns the settings of a rail, whose next version is the current one until a setting is changed.
func Of(on *deployed.Deployment) *Table { return &Table{Deployment: on, Next: on.On.Settings} }

// Refused returns why the next version may not be stored.
func (t *Table) Refused() error {
	err := settings.Payments.Validate(t.Next)
	switch unset := t.Next.Unset(); {
	case t.Number > 0 && (t.Next.Coin() != t.On.Coin || t.Next.Token != t.On.Token):
		return settings.ErrFixed
	case t.Config.Live && len(unset) > 0:
		err = errors.Join(err, fmt.Errorf("a live stack needs limits: set %s", strings.Join(unset, ", ")))
	}
	return err
}

// changes returns how two versions differ. With 0 a limit is the chain's own, which package settings does not know.
func (t *Table) changes(from, to settings.Settings) []settings.Change {
	all, was, is := settings.Payments.Diff(from, to), t.Config.Rules(from), t.Config.Rules(to)
	for i := range all {
		switch c := &all[i]; c.Name {
		case "MaxFeeCapGwei":
			c.Loosens = was.FeeLimit.Less(is.FeeLimit)
		case "NonceWindow":
			c.Loosens = was.Window < is.Window
		}
	}
	return all
}

// units returns the amounts of a setting as people write them, such as " (2.5 USDC)"; "" for other settings.
func (t *Table) units(name, value string) (text string) {
	of := map[string]func(token.Amount) string{"TokenLow": t.Coins, "AmountMinimum": t.Coins, "AmountMaximum": t.Coins,
		"DailyLimit": t.Coins, "ApproveAbove": t.Coins, "RefillToken": t.Coins, "RefillEther": t.Gas}[name]
	if of == nil || value == "" || value == "0" {
		return ""
	}
	value, unlimited := strings.CutSuffix(value, ",0") // of a day's refills
	for part := range strings.SplitSeq(value, ",") {
		amount, _ := token.ParseAmount(part) // of a setting
		text += ", " + of(amount)
	}
	return " (" + text[2:] + map[bool]string{true: ", no daily limit"}[unlimited] + ")"
}

// Describe returns how two versions differ, in lines, and those of these that allow more.
func (t *Table) Describe(from, to settings.Settings) (text, loosens string) {
	for _, c := range t.changes(from, to) {
		line := fmt.Sprintf("%s: %q -> %q%s", c.Name, c.From, c.To, t.units(c.Name, c.To))
		if text += "  " + line; c.Loosens {
			text, loosens = text+"  LOOSENS A LIMIT", loosens+line+"\n"
		}
		text += "\n" + meaning[c.Name+"="+c.To]
	}
	return text, loosens
}

func (t *Table) title(s settings.Stamp) string {
	return fmt.Sprintf("%s, version %d, %s, by %q: %q%s", t.Name(), s.Version, deployed.Stamp(s.At), s.Who, s.Why,
		map[bool]string{false: " (not confirmed for this table)"}[s.Confirmed])
}

func parse(texts []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := values[name]; !ok || twice {
			return nil, fmt.Errorf("%q: give each setting once, as NAME=VALUE", text)
		}
		values[name] = value
	}
	return values, nil
}

// assigned returns the rail's settings, with the next version by texts NAME=VALUE, and these values.
func assigned(ctx context.Context, d *deployed.Deployment, texts []string) (*Table, map[string]string, error) {
	values, err := parse(texts)
	on, unread := d.One(ctx)
	if err = cmp.Or(err, unread); err != nil {
		return nil, nil, err
	}
	t := Of(on)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		next, failed := settings.Payments.Set(t.Next, name, values[name])
		t.Next, err = next, errors.Join(err, failed)
	}
	was, readable := on.On.Settings, on.On.Unusable == nil // damage hides those in force: apply asks no node
	if list := t.Next.Sanctions; err == nil && readable && !list.IsZero() && list != was.Sanctions {
		err = on.Screens(ctx, list)
	}
	if at := t.Next.BatchContract; err == nil && readable && !at.IsZero() && at != was.BatchContract {
		if err = on.EveryNodeHas(ctx, at, disburser.Code()); err != nil {
			err = fmt.Errorf("BatchContract: %w; remit batch deploy makes it, and shows its address", err)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("nothing was changed: %w", err)
	}
	return t, values, nil
}

func write(d *deployed.Deployment, tables []*Table, confirms bool, why string) (change.Change, error) {
	if len(tables) == 0 {
		return change.None("nothing changes"), nil
	}
	text := ""
	for _, t := range tables {
		if err := t.Refused(); err != nil {
			return change.Change{}, fmt.Errorf("nothing was changed: %w", err)
		}
		text += fmt.Sprintf("Settings of %s, version %d:\n", t.Name(), t.On.Settings.Version+1)
		if t.On.Unusable != nil || confirms {
			for _, s := range settings.Payments.Text(t.Next) {
				text += fmt.Sprintf("  %s=%s%s\n", s.Name, s.Value, t.units(s.Name, s.Value))
			}
		}
		if changes, loosens := t.Describe(t.On.Settings, t.Next); t.On.Unusable == nil {
			text, t.loosens = text+changes, loosens
		} else if errors.Is(t.On.Unusable, settings.ErrDamaged) {
			t.loosens = fmt.Sprintf("the damaged settings of %s were replaced\n", t.Name())
		}
	}
	text += "They apply to requests from 30 seconds later."
	return change.Change{Consequences: text, Apply: func(ctx context.Context) (change.Answer, error) {
		return storeNext(ctx, d, tables, settings.Stamp{Why: why, Confirmed: confirms})
	}}, nil
}

// storeNext stores the next version of each rail in turn, if no other was stored since it was read, and publishes the
// settings that allow more than before. A crash between them leaves only the first stored: run it again.
func storeNext(ctx context.Context, d *deployed.Deployment, tables []*Table, by settings.Stamp) (change.Answer, error) {
	text, stored := "", ""
	by.At, by.Who, by.Needs = time.Now(), change.By(ctx), settings.Code
	for _, t := range tables {
		next := t.Next
		next.Stamp, next.Version = by, t.On.Settings.Version
		// A new version of unconfirmed settings is no confirmation of the others.
		next.Confirmed = by.Confirmed || t.On.Settings.Confirmed || t.On.Unusable != nil
		err := t.Payments.SetSettings(ctx, next)
		if errors.Is(err, store.ErrChanged) {
			err = fmt.Errorf("settings of %s: %w; see remit settings show, then repeat the command", t.Name(), err)
		} else { // stored, or nobody knows
			stored += t.loosens
		}
		if err != nil && text != "" {
			err = fmt.Errorf("after those of other rails were stored: %v", err) //nolint:errorlint // no refusal
		}
		if err != nil {
			return change.Answer{}, errors.Join(err, Announce(ctx, d, stored, by.Why))
		}
		text += fmt.Sprintf("settings of %s: version %d\n", t.Name(), next.Version+1)
		if !next.Confirmed && d.Mode == "live" {
			text += "It is of a restored table: remit settings set --confirm lets live payments go on.\n"
		}
	}
	return change.Answer{Text: text}, Announce(ctx, d, stored, by.Why)
}

// Announce publishes the changes that allow more, if any, to those who hear alarms.
func Announce(ctx context.Context, d *deployed.Deployment, loosened, why string) error {
	if loosened == "" {
		return nil
	}
	text := fmt.Sprintf("%sby %s: %s\n", loosened, change.By(ctx), why)
	if err := d.Publish(ctx, fmt.Sprintf("Remit %.70s: a limit was loosened", d.Stack), text); err != nil { // SNS: 100
		return fmt.Errorf("the change is made, and could not be published to the alarm topic, so tell the others: %v",
			err) //nolint:errorlint // no refusal
	}
	return nil
}

type show struct{ deployed.Target }

func (c *show) Run(ctx context.Context, d *deployed.Deployment) error {
	rails, err := d.Rails(ctx)
	all, text := map[string]any{}, ""
	for _, on := range rails {
		t := Of(on)
		s := t.On.Settings
		if t.On.Unusable != nil {
			all[t.Name()] = map[string]any{"version": s.Version, "error": t.On.Unusable.Error()}
			err = errors.Join(err, fmt.Errorf("settings of %s, version %d: %w", t.Name(), s.Version, t.On.Unusable))
			continue
		}
		text += fmt.Sprintf("# %s\n", t.title(s.Stamp))
		for _, v := range settings.Payments.Text(s) {
			text += fmt.Sprintf("# %s%s\n%s=%s\n", v.About, t.units(v.Name, v.Value), v.Name, v.Value)
		}
		all[t.Name()] = row(s)
	}
	return errors.Join(d.Show(all, text), err)
}

func row(s settings.Settings) map[string]any {
	return map[string]any{"version": s.Version, "confirmed": s.Confirmed, "at": deployed.Stamp(s.At), "who": s.Who,
		"reason": s.Why, "values": settings.Payments.Encode(s)}
}

type set struct {
	Values  []string `arg:"" optional:"" placeholder:"NAME=VALUE" help:"Settings to change."`
	Reason  string   `help:"Why, for the history."`
	Confirm bool     `help:"Confirm the settings of a restored table, which it shows. Live payments wait for it."`
}

// Change stores the next version of a rail, or confirms those of each.
func (c set) Change(ctx context.Context, d *deployed.Deployment) (none change.Change, err error) {
	if strings.HasPrefix(c.Reason, applied) {
		return none, fmt.Errorf("a --reason that begins with %q is for remit settings apply; use others", applied)
	}
	t, _, err := assigned(ctx, d, c.Values)
	tables := []*Table{t}
	if len(c.Values) == 0 && c.Confirm {
		tables = nil
		err = d.Each(ctx, func(on *deployed.Deployment) error { tables = append(tables, Of(on)); return nil })
	}
	if err != nil {
		return none, err
	}
	for _, t := range tables {
		if t.On.Unusable != nil {
			return none, unusable(t)
		}
	}
	return write(d, slices.DeleteFunc(tables, func(t *Table) bool {
		return len(t.changes(t.On.Settings, t.Next)) == 0 && (!c.Confirm || t.On.Settings.Confirmed)
	}), c.Confirm, c.Reason)
}

type history struct{ deployed.Target }

// Run shows the kept versions, except unreadable ones.
func (c *history) Run(ctx context.Context, d *deployed.Deployment) error {
	rails, err := d.Rails(ctx)
	all, text := map[string]any{}, ""
	for _, on := range rails {
		t := Of(on)
		versions, failed := t.Payments.SettingsHistory(ctx, t.On.Coin)
		err = errors.Join(err, failed)
		rows := []map[string]any{}
		for i, v := range versions {
			edits := []map[string]any{}
			text += t.title(v.Stamp) + "\n"
			for _, c := range t.changes(versions[min(i+1, len(versions)-1)], v) {
				edits = append(edits, map[string]any{"name": c.Name, "from": c.From, "to": c.To, "loosens": c.Loosens})
				text += fmt.Sprintf("  %s: %q -> %q%s\n", c.Name, c.From, c.To, t.units(c.Name, c.To))
			}
			rows = append(rows, row(v))
			rows[i]["changes"] = edits
		}
		all[t.Name()] = rows
	}
	return errors.Join(d.Show(all, text), err)
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
	t, values, err := assigned(ctx, d, lines)
	if err != nil {
		return none, fmt.Errorf("reading %s: %w", c.File, err)
	}
	for _, s := range settings.Payments.Text(t.Next) {
		if _, named := values[s.Name]; !named {
			err = errors.Join(err, fmt.Errorf("%s lacks %s; add every setting of remit settings show", c.File, s.Name))
		}
	}
	differs, failed := differs(ctx, t)
	if err = errors.Join(err, failed); err != nil {
		return none, err
	}
	if !differs {
		return write(d, nil, false, "")
	}
	return write(d, []*Table{t}, false, applied+filepath.Base(c.File))
}

// differs reports whether to store the next version, from a file: not if apply stored its values last and they are in
// force. To undo a change by hand is an error. Damaged settings are judged by the newest version kept.
func differs(ctx context.Context, t *Table) (bool, error) {
	if errors.Is(t.On.Unusable, settings.ErrNewer) {
		return false, unusable(t)
	}
	versions, err := t.Payments.SettingsHistory(ctx, t.On.Coin)
	if err != nil {
		return false, err
	}
	now, damaged := t.On.Settings, t.On.Unusable != nil
	if damaged && len(versions) == 0 {
		return true, nil
	} else if damaged {
		now = versions[0]
	}
	same := func(a, b settings.Settings) bool { return len(settings.Payments.Diff(a, b)) == 0 }
	last := slices.IndexFunc(versions, func(v settings.Settings) bool { return strings.HasPrefix(v.Why, applied) })
	ours := last >= 0 && same(versions[last], now)
	if equal := same(now, t.Next); equal || ours {
		return !equal || !ours || damaged, nil
	}
	return false, fmt.Errorf("nothing was changed: the settings in force are not those last applied: %s; change the "+
		"file to match (remit settings show) and apply it, or set them back (remit settings set)", t.title(now.Stamp))
}

func unusable(t *Table) error {
	step := "remit settings apply FILE to write all of them (remit settings history has the versions before)"
	if errors.Is(t.On.Unusable, settings.ErrNewer) {
		step = "the version of remit that wrote them"
	}
	return fmt.Errorf("settings of %s: %w; use %s", t.Name(), t.On.Unusable, step)
}
