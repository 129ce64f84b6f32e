package memory_test

import (
	"testing"

	"github.com/remit-payouts/remit/internal/proof/storetest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

func stores() storetest.Stores {
	s := memory.NewPayments()
	return storetest.Stores{Payments: s, Webhooks: memory.NewWebhooks(), Keys: new(memory.APIKeys), Damage: s}
}

func TestFull(t *testing.T) { storetest.Full(t, storetest.Pair{Memory: stores(), Database: stores()}) }

func TestRaces(t *testing.T) { storetest.Races(t, stores()) }
