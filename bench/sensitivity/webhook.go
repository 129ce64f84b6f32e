package main

// Packages that are tested without a rule.
var (
	hooks  = []string{"./internal/webhook", "./internal/webhook/webhooktest"}
	guard  = []string{"./internal/webhook/guard"}
	tables = []string{"./internal/dynamo"}
)

// onTables are the tests of webhooks on DynamoDB.
const onTables = "Webhooks|CallsPer"

// webhookRules are what keeps webhooks from being lost, doubled in the log,
// forged, or turned against us.
var webhookRules = []rule{
	{"the signature is not over the stored bytes", "internal/webhook/signature.go",
		`mac.Write(body)`,
		`mac.Write([]byte(strings.ReplaceAll(string(body), " ", "")))`, hooks, ""},
	{"other bytes than the stored ones are posted", "internal/webhook/attempt.go",
		`s.Post(ctx, e.URL, h, ev.Body)`,
		`s.Post(ctx, e.URL, h, append(ev.Body, 10))`, hooks, ""},
	{"a rotated secret stops signing at once", "internal/webhook/endpoint.go",
		`secrets = append(secrets, e.PreviousSecret)`,
		``, hooks, ""},
	{"a rotated secret signs for ever", "internal/webhook/endpoint.go",
		`&& now.Before(e.PreviousExpiresAt)`,
		``, hooks, ""},
	{"the connection's address is not checked", "internal/webhook/guard/client.go",
		`if err != nil || !allowed(ap.Addr()) {`,
		`if _ = ap; err != nil {`, guard, ""},
	{"a name is not looked up when it is registered", "internal/webhook/guard/client.go",
		`if !c.allowed(a.Unmap()) {`,
		`if !a.IsValid() {`, guard, ""},
	{"redirects are followed", "internal/webhook/guard/client.go",
		`CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },`,
		``, guard, ""},
	{"a proxy is taken from the environment", "internal/webhook/guard/client.go",
		`Proxy:                  nil`,
		`Proxy:                  http.ProxyFromEnvironment`, guard, ""},
	{"TLS before 1.2 is spoken", "internal/webhook/guard/client.go",
		`config.MinVersion = tls.VersionTLS12`,
		`config.MinVersion = tls.VersionTLS10`, guard, ""},
	{"an answer's header has no limit", "internal/webhook/guard/client.go",
		`MaxResponseHeaderBytes: headerLimit,`,
		`MaxResponseHeaderBytes: 1<<30,`, guard, ""},
	{"answers are decompressed", "internal/webhook/guard/client.go",
		`DisableCompression:     true,`,
		``, guard, ""},
	{"a post has all the time in the world", "internal/webhook/guard/post.go",
		`context.WithTimeout(ctx, c.timeout)`,
		`context.WithTimeout(ctx, 25*time.Second)`, guard, "TestTime"},
	{"an answer's body has all the time in the world", "internal/webhook/guard/post.go",
		`time.AfterFunc(bodyTimeout, cancel)`,
		`time.AfterFunc(time.Hour, cancel)`, guard, ""},
	{"a name server says where localhost is", "internal/webhook/guard/client.go",
		`if host != "localhost" {`,
		`if host != "" {`, guard, ""},
	{"attempts are recorded over each other, in memory", "internal/webhook/webhooktest/deliveries.go",
		`if !open || len(stored.Attempts) != attempts {`,
		`if !open && attempts < -1 {`, hooks, ""},
	{"attempts are recorded over each other, in DynamoDB", "internal/dynamo/deliveries.go",
		`condition := "attempt_count = :read AND #status = :pending"`,
		`condition := "attempt_count <= :count AND #status = :pending AND :read = :read"`, tables, onTables},
	{"announcing again overwrites a delivery", "internal/dynamo/deliveries.go",
		`ConditionExpression: p.Put.ConditionExpression,`,
		``, tables, onTables},
	{"a success is lost to a copy of the job that failed", "internal/webhook/deliverer.go",
		`if next.Status != Delivered || stored.Status == Delivered {`,
		`if true {`, hooks, ""},
	{"a job that comes early is dropped", "internal/webhook/deliverer.go",
		`return d.queue.Enqueue(ctx, ref.String(), queueDelay(wait))
	}
	x, err`,
		`return nil
	}
	x, err`, hooks, ""},
	{"a job that comes early posts", "internal/webhook/deliverer.go",
		`wait > 0 && len(del.Attempts) > 0`,
		`false && wait > 0`, hooks, ""},
	{"the attempt is recorded before the endpoint is judged", "internal/webhook/deliverer.go",
		`	if err := d.judge(ctx, e, next); err != nil {
		return err
	}
	recorded, err := d.record(ctx, next, len(del.Attempts))
`,
		`	recorded, err := d.record(ctx, next, len(del.Attempts))
	if err := d.judge(ctx, e, next); err != nil {
		return err
	}
`, hooks, ""},
	{"no job is made for the next attempt", "internal/webhook/deliverer.go",
		`return d.queue.Enqueue(ctx, next.Ref.String(), queueDelay(next.NextAttemptAt.Sub(d.now())))`,
		`return nil`, hooks, "TestSchedule|TestNextAttempt"},
	{"jobs are made before their deliveries are stored", "internal/webhook/publisher.go",
		`if err := p.store.AddDeliveries(ctx, ds); err != nil {
		return fmt.Errorf("announcing %s: %w", eventID, err)
	}
	var errs []error`,
		`var errs []error
	defer func(){ _ = p.store.AddDeliveries(ctx, ds) }()`, hooks, ""},
	{"a queue that is down is not reported", "internal/webhook/publisher.go",
		`if err := errors.Join(errs...); err != nil {`,
		`if err := errors.Join(errs...); false {`, hooks, ""},
	{"a parked delivery is unparked before it has a job", "internal/webhook/pusher.go",
		`if err := p.queue.Enqueue(ctx, d.Ref.String(), 0); err != nil {
				return fmt.Errorf("pushing %s: %w", d.Delivery, err)
			}
			pushed[i] = true
			if err := p.store.Unpark(ctx, d); err != nil {`,
		`if err := p.store.Unpark(ctx, d); err != nil {
				return fmt.Errorf("pushing %s: %w", d.Delivery, err)
			}
			pushed[i] = true
			if err := p.queue.Enqueue(ctx, d.Ref.String(), 0); err != nil {`, hooks, ""},
	{"a pushed delivery stays parked", "internal/webhook/pusher.go",
		`if err := p.store.Unpark(ctx, d); err != nil {`,
		`if err := error(nil); err != nil {`, hooks, ""},
	{"a disabled endpoint is sent what was pending", "internal/webhook/deliverer.go",
		`if e.Status != Enabled {
		return d.cancel`,
		`if e.Status == Deleted {
		return d.cancel`, hooks, ""},
	{"a deleted endpoint is sent what was pending", "internal/webhook/deliverer.go",
		`if e.Status != Enabled {
		return d.cancel`,
		`if e.Status == Disabled {
		return d.cancel`, hooks, ""},
	{"410 does not disable", "internal/webhook/health.go",
		`a.StatusCode == http.StatusGone`,
		`a.StatusCode == http.StatusGone+500`, hooks, ""},
	{"two exhausted events disable at once", "internal/webhook/health.go",
		`if another && d.now().Sub(e.QuietSince) >= quietLimit {`,
		`if another {`, hooks, ""},
	{"one exhausted event disables", "internal/webhook/health.go",
		`another := e.Exhausted != "" && e.Exhausted != del.Event.ID`,
		`another := true`, hooks, ""},
	{"one event that is resent counts as two", "internal/webhook/health.go",
		`&& e.Exhausted != del.Event.ID`,
		``, hooks, ""},
	{"a success does not end the count of failures", "internal/webhook/health.go",
		`e.QuietSince, e.Exhausted = time.Time{}, ""
		return e, nil`,
		`return e, nil`, hooks, ""},
	{"the last success is not looked for", "internal/webhook/health.go",
		`since, err := d.lastSuccess(ctx, e)`,
		`since, err := d.now(), error(nil)`, hooks, ""},
	{"enabling does not forget failures", "internal/webhook/book.go",
		`e.QuietSince, e.Exhausted, e.EnabledAt = time.Time{}, "", now`,
		``, hooks, ""},
	{"announcing again makes another delivery", "internal/webhook/delivery.go",
		`sum := sha256.Sum256([]byte("delivery\x00" + ev.ID + "\x00" + e.ID))`,
		`sum := sha256.Sum256([]byte(fmt.Sprintf("%p", new(int))))`, hooks, ""},
	{"a resend has nothing but its job", "internal/webhook/delivery.go",
		`NextAttemptAt: now, CreatedAt: now, Parked: true,`,
		`NextAttemptAt: now, CreatedAt: now,`, hooks, ""},
	{"Retry-After may ask for any time", "internal/webhook/schedule.go",
		`return min(max(asked, base), 2*base)`,
		`return max(asked, base)`, hooks, ""},
	{"test mode has all attempts", "internal/webhook/schedule.go",
		`if mode == "test" {`,
		`if mode == "never" {`, hooks, ""},
	{"an eleventh endpoint gets in", "internal/dynamo/webhooks.go",
		`attribute_not_exists(endpoints) OR endpoints < :limit`,
		`attribute_not_exists(endpoints) OR endpoints < :limit OR :limit > :one`, tables, onTables},
	{"an endpoint is saved over a newer version", "internal/dynamo/webhookitem.go",
		`aws.String("#version = :read")`,
		`aws.String("#version >= :read")`, tables, onTables},
	{"a delivery that moved on is unparked", "internal/dynamo/duedeliveries.go",
		`attribute_exists(#shard) AND next_attempt_at = :at`,
		`attribute_exists(#shard) AND :at = :at`, tables, onTables},
	{"a job is begun without time for it", "internal/webhook/deliverer.go",
		`end.Sub(d.now()) < SendTimeout+recordTimeout`,
		`false && end.Sub(d.now()) < SendTimeout`, hooks, ""},
	{"what was answered is not recorded when the job's time is over", "internal/webhook/deliverer.go",
		`context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)`,
		`context.WithTimeout(ctx, recordTimeout)`, hooks, ""},
}
