package strictjson_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/api/strictjson"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

func TestParseRefuses(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		_, err := strictjson.Parse([]byte(c.In[0]))
		syntax, ok := errors.AsType[*strictjson.SyntaxError](err)
		if !ok {
			t.Fatalf("error = %v, want a SyntaxError", err)
		}
		if fmt.Sprint(syntax.Offset) != c.Want || syntax.Reason == "" {
			t.Errorf("error = %v, want offset %s", err, c.Want)
		}
	})
}

// TestParseMemory holds the promise that a full body of a costly shape takes a bounded multiple of its size, and no
// allocation for each number.
func TestParseMemory(t *testing.T) {
	body := []byte("[" + strings.Repeat("0,", 32<<10-2) + "0]")
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must.Get(strictjson.Parse(body))(b)
		}
	})
	if perByte := result.AllocedBytesPerOp() / int64(len(body)); perByte > 150 || result.AllocsPerOp() > 50 {
		t.Errorf("%d bytes allocated for each byte of the body, %d times", perByte, result.AllocsPerOp())
	}
}
