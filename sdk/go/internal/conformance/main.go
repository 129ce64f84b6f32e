// Command conformance pays what it reads, for the suite of sdk/conformance_test.go: a line is an intent, a
// recipient and one amount, or several for a batch. It prints each intent with its hash, or how it ended.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

func main() {
	api, most := &remit.Client{URL: os.Getenv("REMIT_URL"), Key: os.Getenv("REMIT_API_KEY")}, make(chan struct{}, 16)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		most <- struct{}{}
		go func(words []string) {
			defer func() { <-most }()
			fmt.Println(words[0], pay(api, words[0], words[1], words[2:]))
		}(strings.Fields(lines.Text()))
	}
	for range cap(most) {
		most <- struct{}{}
	}
}

func pay(api *remit.Client, intent, to string, amounts []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var p remit.Payment
	var err error
	if len(amounts) == 1 {
		p, err = api.Pay(ctx, intent, remit.Order{To: to, Amount: remit.Amount(amounts[0])})
	} else {
		var batch remit.Batch
		for _, amount := range amounts {
			batch.Payments = append(batch.Payments, remit.Entry{To: to, Amount: remit.Amount(amount)})
		}
		p, err = api.PayMany(ctx, intent, batch)
	}
	if _, unknown := errors.AsType[*remit.OutcomeUnknown](err); unknown {
		return "unknown"
	}
	if err != nil {
		return err.Error()
	}
	return p.TxHash
}
