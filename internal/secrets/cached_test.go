package secrets_test

import (
	"context"
	"errors"
	"testing"

	"remit/internal/secrets"
)

func TestCached(t *testing.T) {
	var value []byte
	outage, unusable := errors.New("outage"), errors.New("unusable")
	var broken error
	makes := 0
	cached := secrets.Cache(func(context.Context) ([]byte, error) { return value, broken }, func(b []byte) (string, error) {
		makes++
		if string(b) == "bad" {
			return "", unusable
		}
		return "made of " + string(b), nil
	})
	for _, step := range []struct {
		why    string
		value  string
		broken error
		want   string
		err    error
		makes  int
	}{
		{"nothing without a value", "", outage, "", outage, 0},
		{"nothing of a bad value", "bad", nil, "", unusable, 1},
		{"which is tried once", "bad", nil, "", unusable, 1},
		{"a good value", "one", nil, "made of one", nil, 2},
		{"is used once", "one", nil, "made of one", nil, 2},
		{"an outage changes nothing", "", outage, "made of one", nil, 2},
		{"nor does a bad value", "bad", nil, "made of one", nil, 3},
		{"a new value is used", "two", nil, "made of two", nil, 4},
	} {
		value, broken = []byte(step.value), step.broken
		got, err := cached.Get(t.Context())
		if got != step.want || !errors.Is(err, step.err) || makes != step.makes {
			t.Errorf("%s: Get = %q, %v after %d makes; want %q, %v, %d", step.why, got, err, makes, step.want, step.err, step.makes)
		}
	}
}
