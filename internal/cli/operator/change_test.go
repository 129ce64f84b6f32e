package operator_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/cli/operator"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestEveryChangeAsks: each command is a change.Command, which asks and logs, or one of these, which only read.
func TestEveryChangeAsks(t *testing.T) {
	const readers = " audit audit-log deny.list doctor export keys.list merchants.list merchants.show payment.show proposals " +
		"rails.list settings.history settings.show wallet.list webhooks.failed "
	parser := must.Get(kong.New(new(operator.Commands)))(t)
	for _, leaf := range parser.Model.Leaves(false) {
		name := strings.ReplaceAll(leaf.Path(), " ", ".")
		changes := strings.HasPrefix(reflect.Indirect(leaf.Target).Type().Name(), "Command[")
		if reads := strings.Contains(readers, " "+name+" "); reads == changes {
			t.Errorf("remit %s: is a change.Command: %t; listed as a reader: %t", name, changes, reads)
		}
	}
}
