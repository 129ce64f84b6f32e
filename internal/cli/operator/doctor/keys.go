package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
)

// keysAreWhole finds keys that only read payments until they are reissued
// (apikey.Grant.Former), each with the commands that do so.
func (e *examination) keysAreWhole(ctx context.Context) (string, error) {
	keys, err := e.Keys.All(ctx)
	if err != nil {
		return "", err
	}
	var bad []string
	for _, k := range keys {
		if k.Former != 0 && k.Valid(time.Now()) {
			bad = append(bad, "\n     "+e.reissue(k))
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return "", fmt.Errorf("%d keys only read payments:%s", len(bad), strings.Join(bad, ""))
	}
	return fmt.Sprintf("%d keys", len(keys)), nil
}

// reissue describes why a key lost its scopes, and the commands that replace it with a key of
// the same scopes and limits, but without limits beside the scope keys.
func (e *examination) reissue(k apikey.Key) string {
	why, want, keys := "limits of other keys", k.Grant, apikey.ScopesOf(apikey.Keys)
	want.Scopes = k.Former
	if k.Former&keys != 0 {
		why = "limits beside the scope keys"
		if want.Scopes &^= keys; want.Scopes == 0 {
			want = apikey.Grant{Scopes: keys}
		}
	}
	var words []string
	for _, s := range want.Scopes.List() {
		words = append(words, string(s))
	}
	flags := ""
	flag := func(given bool, name, value string) {
		if given {
			flags += fmt.Sprintf(" --%s %s", name, value)
		}
	}
	flag(k.Label != "", "label", "'"+strings.ReplaceAll(k.Label, "'", `'\''`)+"'")
	flag(true, "scopes", strings.Join(words, ","))
	flag(!want.Maximum.IsZero(), "max-amount", want.Maximum.String())
	flag(!want.Daily.Amount.IsZero(), "daily-amount", want.Daily.Amount.String())
	flag(want.Daily.Count > 0, "daily-count", fmt.Sprint(want.Daily.Count))
	flag(want.Book, "recipients", "book")
	flag(!k.ExpiresAt.IsZero(), "expires-in", max(time.Until(k.ExpiresAt).Truncate(time.Second), time.Second).String())
	return fmt.Sprintf("%s of %s, label %q, has %s: remit keys issue %[2]s --stack %[5]s%[6]s && remit keys revoke %[2]s %[1]s --stack %[5]s",
		k.ID, k.MerchantID, k.Label, why, e.Stack, flags)
}
