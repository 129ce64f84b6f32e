package coldstart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTraceReadsWhatTheRuntimeWrites(t *testing.T) {
	const text = "init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs\n" +
		`{"level":"INFO","msg":"init something else"}` + "\n" +
		"init net/http @1.5 ms, 0.023 ms clock, 8216 bytes, 54 allocs\n"
	want := []packageInit{{"internal/bytealg", 0, 0, 0}, {"net/http", 0.023, 8216, 54}}
	if diff := cmp.Diff(want, parseTrace(text), cmp.AllowUnexported(packageInit{})); diff != "" {
		t.Error(diff)
	}
}
