package scheduler

// An Outcome is the fate of one effect.
type Outcome int

// The outcomes. An effect can fail in two ways: not applied, or applied with its answer lost.
const (
	Apply      Outcome = iota // applied and answered: no fault
	FailBefore                // not applied; its actor gets ErrInjected
	LoseAnswer                // applied; its actor gets ErrInjected
	ApplyLate                 // its actor gets ErrInjected, and it is applied later
	Freeze                    // its actor waits long, then it is applied and answered
	FreezeDone                // applied at once, and answered after long
	KillBefore                // its actor dies; not applied
	KillAfter                 // its actor dies just after it was applied
	KillLate                  // its actor dies, and it is applied later
)

var outcomes = [...]string{"applied", "failed, not applied", "applied, answer lost", "failed, applied later", "frozen",
	"applied, answer frozen", "killed before", "killed after", "killed, applied later"}

// String describes the outcome.
func (o Outcome) String() string { return outcomes[o] }

// Faults returns every outcome but Apply.
func Faults() []Outcome {
	faults := make([]Outcome, 0, len(outcomes)-1)
	for o := FailBefore; int(o) < len(outcomes); o++ {
		faults = append(faults, o)
	}
	return faults
}
