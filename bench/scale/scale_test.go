package scale_test

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"remit/internal/dynamo"
	"remit/internal/plan"
)

var curves = flag.Bool("curves", false, "simulate everything that docs/scale.md shows, and print it in Go's benchmark format")

// on is a load on a chain under the template's defaults.
func on(name string, rate, merchants float64) plan.Load {
	return plan.Load{Rate: rate, Merchants: merchants, Chain: plan.Chains[name], Stack: plan.Default}
}

// roomy is Polygon with so much gas that no load of a test fills its blocks.
func roomy(rate float64) plan.Load {
	l := on("polygon", rate, 1)
	l.Chain.BlockGas *= 100
	return l
}

// TestAListInOnePartition: with one partition for a merchant's list, as it was, payments
// meet a wall where the plan puts it, and with as many as there are they do not.
func TestAListInOnePartition(t *testing.T) {
	const computed = float64(plan.PartitionWrites) / plan.ListWrites
	for _, row := range []struct {
		buckets int
		rate    float64
		wall    bool
	}{{1, 0.5 * computed, false}, {1, 1.2 * computed, true}, {plan.ListBuckets, 1.2 * computed, false}} {
		r := run{Load: roomy(row.rate).Planned(), scale: 20, length: 40 * time.Second, buckets: row.buckets}
		r.Endpoints = 1000
		o := r.simulate(t)
		if hit := o.walls["one merchant's list"] > o.made/10; hit != row.wall || o.twice+o.lost > 0 {
			t.Errorf("%d partitions, %.0f a second: throttled %v, %d made, %d paid twice, %d lost", row.buckets, row.rate, o.walls, o.made, o.twice, o.lost)
		}
	}
}

// TestScaledDownIsHonest: a load and a tenth of it, on a tenth of the wallets under a tenth
// of the limits, give the same figures.
func TestScaledDownIsHonest(t *testing.T) {
	l := on("polygon", 50, 1)
	l.Wallets = 20
	whole, tenth := run{Load: l, scale: 1, length: 30 * time.Second}.simulate(t), run{Load: l, scale: 10, length: 200 * time.Second}.simulate(t)
	for _, figure := range []struct {
		name         string
		whole, tenth float64
		apart        float64
	}{
		{"median of a POST", quantile(whole.posts, 0.5), quantile(tenth.posts, 0.5), 0.05},
		{"median until confirmed", quantile(whole.confirmed, 0.5), quantile(tenth.confirmed, 0.5), 0.15},
		{"write units of a payment", whole.writes, tenth.writes, 0.05},
		{"read units of a payment", whole.reads, tenth.reads, 0.15},
		{"calls of a node", whole.calls, tenth.calls, 0.15},
	} {
		if math.Abs(figure.tenth/figure.whole-1) > figure.apart {
			t.Errorf("%s: %.3f, and %.3f scaled down", figure.name, figure.whole, figure.tenth)
		}
	}
	if whole.refused+tenth.refused+whole.twice+tenth.twice+whole.lost+tenth.lost > 0 {
		t.Errorf("refused, paid twice or lost: %+v %+v", whole.walls, tenth.walls)
	}
}

// TestOneSourceOfNumbers: the units of calls here are those that were measured, and the
// partitions of a list those that package dynamo writes to.
func TestOneSourceOfNumbers(t *testing.T) {
	sum := 0.0
	for _, op := range []string{"Create", "Reserve", "Commit", "Release", "Finish", "DeletePendingTx"} {
		sum += costs[op].own + costs[op].wallet + costs[op].list
	}
	if want := plan.Measured.Writes - plan.Measured.HookWrites; sum != want || dynamo.ListBuckets != plan.ListBuckets {
		t.Errorf("a payment's calls write %v units, measured are %v; %d buckets, planned for %d", sum, want, dynamo.ListBuckets, plan.ListBuckets)
	}
}

// TestCurves simulates the loads of docs/scale.md, or with no flag a few payments of
// each chain.
func TestCurves(t *testing.T) {
	rates := []float64{10}
	if *curves {
		fmt.Printf("goos: %s\ngoarch: %s\ncpu: virtual time\n", runtime.GOOS, runtime.GOARCH)
		rates = []float64{1, 10, 100, 1000, 10_000}
	}
	for _, name := range []string{"ethereum", "base", "polygon"} {
		for _, rate := range rates {
			for _, merchants := range []float64{1, 1000} {
				simulate(t, fmt.Sprintf("load=planned/chain=%s/merchants=%.0f", name, merchants), run{Load: on(name, rate, merchants)})
			}
		}
	}
	if !*curves {
		return
	}
	for _, l := range []plan.Load{on("ethereum", 60, 1000), on("base", 500, 1000), on("polygon", 350, 1000)} {
		for _, l.Wallets = range []float64{4, 16, 40, 100, 400} {
			simulate(t, "load=so_many_wallets/chain="+nameOf(l)+"/merchants=1000", run{Load: l})
		}
	}
	base, room := on("base", 1000, 1000), roomy(5000)
	room.Endpoints = 20
	for _, r := range []struct {
		name string
		run
	}{
		{"the_quotas_and_parameters_of_a_new_account", run{Load: on("base", 1000, 1000), asIs: true}},
		{"a_tenth_of_the_rate,_and_all_of_it_for_a_fifth_of_the_time", run{Load: on("base", 1000, 1000), burst: true, length: 5 * time.Minute}},
		{"a_table_that_is_new", run{Load: on("base", 1000, 1000), fresh: true}},
		{"a_node_of_200_calls_a_second", run{Load: on("base", 100, 1000), calls: 200}},
		{"one_of_three_providers_lost_for_a_minute", run{Load: on("base", 100, 1000), nodes: 3, scale: 5, length: 5 * time.Minute}},
		{"one_of_two_providers_lost_for_a_minute", run{Load: on("base", 100, 1000), nodes: 2, scale: 5, length: 5 * time.Minute}},
		{"one_endpoint_of_more_webhooks_than_its_log_takes", run{Load: roomy(750), length: time.Minute}},
		{"an_hour", run{Load: base, length: time.Hour, scale: base.Planned().Wallets / 4}},
		{"one_merchant_on_a_chain_with_room", run{Load: room, length: time.Minute, scale: 25}},
	} {
		simulate(t, "load="+r.name+"/chain="+nameOf(r.Load)+fmt.Sprintf("/merchants=%.0f", r.Merchants), r.run)
	}
}

// nameOf returns the name of a load's chain, none of one whose blocks are not its own.
func nameOf(l plan.Load) string {
	for name, c := range plan.Chains {
		if c == l.Chain {
			return name
		}
	}
	return "none"
}

// simulate prints a run's outcome as a line of a benchmark. What a run does not say of its
// scale and length is chosen so that it makes some two thousand payments.
func simulate(t *testing.T, name string, r run) {
	t.Helper()
	if planned := r.Planned(); r.Wallets == 0 {
		r.Load = planned
	} else {
		r.Stack = planned.Stack
	}
	if r.asIs {
		r.Stack = plan.Default
	}
	if r.scale == 0 {
		r.scale = max(1, min(r.Rate/100, r.Wallets/4))
	}
	if r.length == 0 {
		seconds := min(max(2000/(r.Rate/r.scale), 20), 300)
		if !*curves {
			seconds = 10
		}
		r.length = time.Duration(seconds) * time.Second
	}
	o := r.simulate(t)
	if o.twice+o.lost > 0 || o.made == 0 {
		t.Errorf("%s at %.0f a second: %d made, %d paid twice, %d not confirmed", name, r.Rate, o.made, o.twice, o.lost)
	}
	n, s := r.Month()
	wall := strings.ReplaceAll(o.wall, " ", "_")
	if wall == "" {
		wall = "none"
	}
	fmt.Printf("BenchmarkScale/%s/rate=%.0f/wallets=%.0f/wall=%s 1 %.4g made-%% %.4g p50-ms %.4g p99-ms %.4g confirmed-s %.4g delivered-s %.4g delivered-p99-s %.4g writes/payment %.4g reads/payment %.4g calls/payment %.4g $/million %d paid-twice %d lost %.4g scale %d payments\n",
		name, r.Rate, r.Wallets, wall, 100*float64(o.made)/float64(max(1, o.asked)), 1000*quantile(o.posts, 0.5), 1000*quantile(o.posts, 0.99),
		quantile(o.confirmed, 0.5), quantile(o.delivered, 0.5), quantile(o.delivered, 0.99), o.writes+plan.Measured.HookWrites, o.reads, o.calls, s.PerMillion(n, plan.Measured), o.twice, o.lost, r.scale, o.made)
}
