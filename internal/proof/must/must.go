// Package must ends a test at an error that it does not expect.
package must

// A T is a test, a benchmark, or a test of package rapid.
type T interface {
	Helper()
	Fatal(args ...any)
}

// OK ends the test with err, unless that is nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends the test with err: must.Get(os.ReadFile(name))(t).
func Get[V any](v V, err error) func(T) V { return func(t T) V { t.Helper(); OK(t, err); return v } }

// Err returns the error of a call whose value does not matter.
func Err[V any](_ V, err error) error { return err }
