package operator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// advice has the next step after errors of the domains, which know no command.
var advice = []struct {
	err  error
	step string
}{
	{store.ErrNotFound, "check the id, --merchant and --stack"},
	{store.ErrChanged, "run the command again"},
	{wallet.ErrUnknown, "find the wallet with remit wallet list"},
	{apikey.ErrNotFound, "find the key with remit keys list"},
	{apikey.ErrLimit, "end one with remit keys revoke"},
	{webhook.ErrNotFound, "check the ids of the merchant and the webhook"},
	{webhook.ErrDisabled, "have the merchant enable it"},
}

// Advised returns err with the next step, if a domain made it and no command has added one.
func Advised(err error) error {
	for _, a := range advice {
		if errors.Is(err, a.err) && strings.HasSuffix(err.Error(), a.err.Error()) {
			return fmt.Errorf("%w; %s", err, a.step)
		}
	}
	return err
}
