package webhooktest_test

import (
	"testing"

	"remit/internal/webhook"
	"remit/internal/webhook/webhooktest"
)

func TestStore(t *testing.T) {
	webhooktest.Suite(t, func(*testing.T) webhook.Store { return webhooktest.NewStore() })
}
