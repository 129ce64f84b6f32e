package apikey_test

import (
	"errors"
	"testing"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

func TestCheckName(t *testing.T) {
	outcomes := map[string]error{
		"taken": nil, "blank": apikey.ErrNameBlank, "too long": apikey.ErrNameTooLong,
		"control": apikey.ErrNameControl, "encoding": apikey.ErrNameEncoding,
	}
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		if err := apikey.CheckName(c.In[0]); !errors.Is(err, outcomes[c.Want]) {
			t.Errorf("CheckName(%q) = %v, want %v", c.In[0], err, outcomes[c.Want])
		}
	})
}
