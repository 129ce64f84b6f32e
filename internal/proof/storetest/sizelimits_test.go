package storetest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// TestEveryListHasABound finds the lists and maps that methods of the stores' ports take,
// and those in the values that they take: each has a bound, and each bound such a list.
func TestEveryListHasABound(t *testing.T) {
	found := map[string]bool{}
	for _, port := range []reflect.Type{
		reflect.TypeFor[store.Store](), reflect.TypeFor[store.AuditLog](), reflect.TypeFor[webhook.Store](),
		reflect.TypeFor[apikey.Store](), reflect.TypeFor[recipient.Store](),
	} {
		for m := range port.Methods() {
			for in := range m.Type.Ins() {
				lists(found, m.Name+" "+in.String(), in)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(bounds)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("lists without a bound are added here, bounds without a list taken away:\n%s", diff)
	}
}

// lists adds the lists and maps that a value of a type has, by the names of their fields, and of other types by name.
func lists(found map[string]bool, name string, v reflect.Type) {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		found[name] = true
		lists(found, name, v.Elem())
	case reflect.Pointer, reflect.Array:
		lists(found, name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if f.IsExported() && v.PkgPath() != "time" && strings.HasPrefix(v.PkgPath(), "github.com/remit-payouts/remit/") {
				lists(found, v.String()+"."+f.Name, f.Type)
			}
		}
	}
}
