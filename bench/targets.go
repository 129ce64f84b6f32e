package main

import (
	"fmt"
	"math"
	"strings"
)

// A target is a limit of one measured value.
type target struct {
	section, name string
	sign          string // "≤" or "≥"
	limit         float64
	format        string // of the limit and the value
	of, unit      string // the value: the largest of a unit among the results of a selector
	per           string // the selector of another result that the value is divided by, if any
}

const (
	farPost  = "Post/store=4ms/rpc=50ms/clients="
	nearPost = "Post/store=0s/rpc=0s/clients="
)

var targets = append([]target{
	{"Cold starts", "init of the slowest function without a chain client, of hello's", "≤", 1.5, "%.2f ×", "Coldstart/chain=no", "x-hello", ""},
	{"Cold starts", "init of the slowest function with one, ms", "≤", 12, "%.1f", "Coldstart/chain=yes", "init-ms", ""},
	{"Cold starts", "largest zip, MB", "≤", 5, "%.2f", "Coldstart", "zip-MB", ""},
	{"Cold starts", "largest zip without a chain client, MB", "≤", 3.5, "%.2f", "Coldstart/chain=no", "zip-MB", ""},
	{"Cold starts", "largest binary, MB", "≤", 12, "%.2f", "Coldstart", "binary-MB", ""},
	{"POST /send-payment", "POST p50 at one client, of the sum of its own round trips", "≤", 1.15, "%.2f ×", farPost + "1/payer=4-wallets", "p50/roundtrips", ""},
	{"POST /send-payment", "POST p50 at 64 clients and 4 wallets, of the same", "≤", 1.15, "%.2f ×", farPost + "64/payer=4-wallets", "p50/roundtrips", ""},
	{"POST /send-payment", "throughput over the reference at 64 clients, 4 wallets, 4 / 50 ms", "≥", 20, "%.1f ×", farPost + "64/payer=4-wallets", "payments/s", farPost + "64/payer=reference"},
	{"POST /send-payment", "the same at 0 / 0 ms", "≥", 3, "%.1f ×", nearPost + "64/payer=4-wallets", "payments/s", nearPost + "64/payer=reference"},
	{"DynamoDB over a payment's life", "DynamoDB calls of a payment (three in sequence, and the release)", "≤", 4, "%.2f", "Store/function=send-payment", "calls", ""},
	{"POST /send-payment", "HTTP requests to the node (an estimate, a broadcast, fees once a block)", "≤", 2.6, "%.2f", farPost + "1/payer=4-wallets", "requests/payment", ""},
	{"Settlement", "nothing mined: RPC requests per wallet", "≤", 1, "%.2f", "Settle/mined=0", "requests/wallet", ""},
	{"Settlement", "nothing mined: store reads per wallet", "≤", 2, "%.2f", "Settle/mined=0", "reads/wallet", ""},
	{"Webhooks", "p99 of the healthy ones with ten bad ones, of a run without", "≤", 1.5, "%.2f ×", "Webhooks/hanging=5", "p99-s", "Webhooks/hanging=0"},
	{"Webhooks", "webhooks of healthy endpoints that arrived", "≥", 9000, "%.0f", "Webhooks/hanging=5", "webhooks", ""},
	{"Webhooks", "memory with ten bad ones, of a run without", "≤", 1.5, "%.2f ×", "Webhooks/hanging=5", "peak-MB", "Webhooks/hanging=0"},
	{"DynamoDB over a payment's life", "DynamoDB calls of a webhook (stored, loaded, recorded)", "≤", 3, "%.2f", "Store/webhook=all", "calls", ""},
	{"DynamoDB over a payment's life", "SQS messages of a webhook", "≤", 1, "%.2f", "Store/function=check-receipts", "messages", ""},
	{"remit local under load", "payments a second, 32 clients, 4 wallets", "≥", 200, "%.0f", "Load/clients=32/wallets=4", "payments/s", ""},
	{"remit local under load", "payments a second, 32 clients, 16 wallets", "≥", 400, "%.0f", "Load/clients=32/wallets=16", "payments/s", ""},
	{"remit local under load", "POST p50 at 8 clients, ms", "≤", 15, "%.1f", "Load/clients=8", "p50-ms", ""},
	{"remit local under load", "processor time per payment, ms", "≤", 2, "%.2f", "Load/clients=32", "cpu-ms/payment", ""},
	{"What it costs", "dollars per million payments at 10 million a month, as deployed by default", "≤", 25, "%.2f", "Cost/million=as deployed by default", "at 10000000 a month", ""},
	{"What it costs", "the same with every lever that gives nothing up", "≤", 25, "%.2f", "Cost/million=with every lever that gives nothing up", "at 10000000 a month", ""},
	{"Everything breaks", "kills", "≥", 1, "%.0f", "Chaos/happened=kills_of_the_server_(SIGKILL)", "count", ""},
}, unbroken("payments mined more than once", "payments answered 201 and not mined", "transfers that no client asked for", "payments answered with two hashes",
	"payments answered 201 and not confirmed", "confirmed payments never announced", "events announced in two forms", "wallets with something left for a person",
	"answers that refuse what must not be refused", "payments not mined once all were asked for again", "transactions left in the node's pool")...)

// unbroken are the targets of chaos: no promise may ever be broken.
func unbroken(promises ...string) (all []target) {
	for _, name := range promises {
		all = append(all, target{"Everything breaks", name, "≤", 0, "%.0f", "Chaos/broken=" + strings.ReplaceAll(name, " ", "_"), "count", ""})
	}
	return all
}

// judge returns the value of a target and the verdict on it.
func (t target) judge(r *results) (got, verdict string) {
	v := r.value(t.of, t.unit)
	if t.per != "" {
		v /= r.value(t.per, t.unit)
	}
	switch {
	case math.IsNaN(v):
		return "", "not measured"
	case t.sign == "≤" && v <= t.limit, t.sign == "≥" && v >= t.limit:
		return fmt.Sprintf(t.format, v), "met"
	default:
		return fmt.Sprintf(t.format, v), "**missed**"
	}
}
