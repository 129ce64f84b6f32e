package webhook

import "time"

// A Meter counts attempts and deliveries for operators. Its methods are called
// from several goroutines and must not block. Their arguments hold no merchant's
// data and few values, as the dimensions of a metric must.
type Meter interface {
	// Attempted counts a post. result is "2xx", "3xx", "4xx", "5xx" or
	// "none", which stands for every failure without a usable answer.
	Attempted(result string, took time.Duration)

	// Ended counts a delivery that became final: "delivered", "exhausted" or
	// "cancelled"; took is the time since it was created.
	Ended(status DeliveryStatus, took time.Duration)

	// OldestDue is the age of the parked delivery that waits longest past its
	// time, 0 when none waits. It is called once per PushDue.
	OldestDue(age time.Duration)
}

// NoMeter counts nothing.
type NoMeter struct{}

// Attempted implements Meter.
func (NoMeter) Attempted(string, time.Duration) {}

// Ended implements Meter.
func (NoMeter) Ended(DeliveryStatus, time.Duration) {}

// OldestDue implements Meter.
func (NoMeter) OldestDue(time.Duration) {}
