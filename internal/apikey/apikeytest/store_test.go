package apikeytest_test

import (
	"testing"

	"remit/internal/apikey/apikeytest"
)

func TestStore(t *testing.T) {
	apikeytest.Suite(t, func(*testing.T) apikeytest.Keeper { return new(apikeytest.Store) })
}
