package webhook

import (
	"fmt"
	"strings"
)

// A Ref names a delivery, its endpoint and their owner, so that a store can load
// both in one read. Its text is the body of a job.
type Ref struct {
	Owner
	Endpoint string // "we_…"
	Delivery string // "dlv_…"
}

// String returns the job: mode, merchant, endpoint and delivery between slashes.
func (r Ref) String() string {
	return r.Mode + "/" + r.Merchant + "/" + r.Endpoint + "/" + r.Delivery
}

// ParseRef reads the text of a Ref. Any other text is ErrJob.
func ParseRef(job string) (Ref, error) {
	parts := strings.Split(job, "/")
	if len(parts) != 4 {
		return Ref{}, fmt.Errorf("%w: %d parts", ErrJob, len(parts))
	}
	for _, p := range parts {
		if p == "" {
			return Ref{}, fmt.Errorf("%w: an empty part", ErrJob)
		}
	}
	return Ref{Owner{Merchant: parts[1], Mode: parts[0]}, parts[2], parts[3]}, nil
}
