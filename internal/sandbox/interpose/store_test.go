package interpose_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

var errFault = errors.New("fault")

// TestEveryCallIsInterposed calls every method of both ports on wrappers of nil ports, where a method that did not call
// Around would panic. String makes no request, and List and Entries are passed on directly.
func TestEveryCallIsInterposed(t *testing.T) {
	var asked []string
	around := func(_ context.Context, c interpose.Call, _ func(context.Context)) error {
		asked = append(asked, c.Op)
		return errFault
	}
	for _, wrapper := range []struct {
		port reflect.Type
		on   reflect.Value
	}{
		{reflect.TypeFor[store.Store](), reflect.ValueOf(&interpose.Store{Around: around})},
		{reflect.TypeFor[chain.Node](), reflect.ValueOf(interpose.Node{Node: named{}, Around: around})},
	} {
		for m := range wrapper.port.Methods() {
			if m.Name == "List" || m.Name == "Entries" || m.Name == "String" {
				continue
			}
			asked = nil
			method := wrapper.on.MethodByName(m.Name)
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for i := 1; i < method.Type().NumIn(); i++ {
				args = append(args, reflect.Zero(method.Type().In(i)))
			}
			results := method.Call(args)
			last := results[len(results)-1].Interface()
			if reply, ok := last.(chain.Reply); ok {
				if reply.Class != chain.Ambiguous {
					t.Errorf("%s: reply %v, want ambiguous", m.Name, reply)
				}
			} else if err, _ := last.(error); !errors.Is(err, errFault) {
				t.Errorf("%s: error %v, want the fault", m.Name, err)
			}
			if len(asked) != 1 || asked[0] != m.Name {
				t.Errorf("%s: asked for %v", m.Name, asked)
			}
		}
	}
}

// named is a node that has a name only.
type named struct{ chain.Node }

func (named) String() string { return "node" }
