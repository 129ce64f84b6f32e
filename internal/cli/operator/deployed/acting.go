package deployed

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// ErrMerchant reports an id that no merchant can have.
var ErrMerchant = errors.New("a merchant's id is mer_ and 16 letters or digits")

var merchantID = regexp.MustCompile("^mer_[0-9A-Za-z]{16}$")

// Acting returns an unstored key with all rights, for requests of an operator in the merchant's place. If the store
// has lost every key of the merchant, name must be the merchant's name, and the errors are ErrMerchant and those of
// apikey.CheckName. Without a name it returns apikey.ErrNotFound for a merchant without keys.
func Acting(ctx context.Context, keys *apikey.Registry, merchant, name string) (apikey.Key, error) {
	theirs, err := keys.List(ctx, merchant)
	switch {
	case err != nil:
		return apikey.Key{}, err
	case len(theirs) > 0:
		name = theirs[0].MerchantName
	case name == "":
		return apikey.Key{}, fmt.Errorf("%w: merchant %q has none; find the merchant with remit merchants list", apikey.ErrNotFound, merchant)
	case !merchantID.MatchString(merchant):
		return apikey.Key{}, fmt.Errorf("%q: %w", merchant, ErrMerchant)
	default:
		err = apikey.CheckName(name)
	}
	return apikey.Key{MerchantID: merchant, MerchantName: name, Grant: apikey.Full()}, err
}
