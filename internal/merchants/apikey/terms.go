package apikey

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Terms are an operator's decisions about a merchant. With the zero Terms the merchant is active, under the stack's
// limits. Amounts are in the smallest unit of their asset.
type Terms struct {
	Suspended  string `json:"suspended,omitempty"` // why all but reads is refused; empty: the merchant is active
	AssetTerms        // of the default asset
	// Assets has the terms of other assets, by name, of at most MaxAssetTerms.
	Assets map[string]AssetTerms `json:"assets,omitempty"`
}

// AssetTerms are a merchant's own limits of an asset, in place of the stack's; zero: the stack's.
type AssetTerms struct {
	// Own is not empty if the asset is paid from wallets assigned to the merchant alone. It is another text after each
	// assignment, so that no command ends this beside a new one.
	Own     string       `json:"own_wallets,omitempty"`
	Maximum token.Amount `json:"max_amount,omitzero"`   // of one payment
	Daily   token.Amount `json:"daily_amount,omitzero"` // in a UTC day
}

// MaxAssetTerms is the most assets of Terms.Assets: the authorizer passes them on with each request.
const MaxAssetTerms = 31

// ErrAssetTerms reports Terms of more assets.
var ErrAssetTerms = fmt.Errorf("terms of more than %d assets beside the default; set some to 0", MaxAssetTerms)

// Of returns the terms of an asset, of the default if it is zero.
func (t Terms) Of(asset token.Coin) AssetTerms {
	if asset == (token.Coin{}) {
		return t.AssetTerms
	}
	return t.Assets[asset.String()]
}

// With returns t with other limits of an asset, of the default if it is zero.
func (t Terms) With(asset token.Coin, limits AssetTerms) Terms {
	if asset == (token.Coin{}) {
		t.AssetTerms = limits
		return t
	}
	t.Assets = maps.Clone(t.Assets)
	if limits == (AssetTerms{}) {
		delete(t.Assets, asset.String())
		return t
	}
	if t.Assets == nil {
		t.Assets = map[string]AssetTerms{}
	}
	t.Assets[asset.String()] = limits
	return t
}

// ErrSuspended reports a request of a merchant that is suspended.
var ErrSuspended = errors.New("the merchant is suspended")

// ErrTerms reports terms that have changed since they were read.
var ErrTerms = errors.New("another operator has changed the merchant's terms; read them with remit merchants list")

// Text writes t as one line of JSON, for stores and for the authorizer's context. The zero Terms are "".
func (t Terms) Text() string {
	text, _ := json.Marshal(t) // strings and amounts always become JSON
	return strings.TrimPrefix(string(text), "{}")
}

// ParseTerms reads the result of Text.
func ParseTerms(text string) (t Terms, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &t)
	}
	return t, err
}
