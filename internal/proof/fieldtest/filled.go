// Package fieldtest fills values, so that a test can see a field that is lost on a way.
package fieldtest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Filled returns a V in which no field is zero and no two have the same value. A text is its field's name and a number,
// a list has two elements, and a map one. It panics at a kind of field that it does not know.
func Filled[V any]() (v V) {
	fill(reflect.ValueOf(&v).Elem(), "", new(0))
	return v
}

func fill(v reflect.Value, name string, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *token.Amount:
		*at = token.Units(uint64(*n))
		return
	case *time.Time:
		*at = time.Unix(int64(*n), 0).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			fill(value, field.Name, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), name, n)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name, n)
		fill(value, name, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, n)
	case reflect.String:
		v.SetString(fmt.Sprint(name, " ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		v.SetInt(int64(*n))
	}
}
