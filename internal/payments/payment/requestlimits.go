package payment

// Limits of a request (shared with openapi.yaml). Lengths are in code points.
const (
	MaxEntries       = 100 // of a batch
	MaxReference     = 128
	MaxMetadata      = 20 // pairs
	MaxMetadataName  = 40
	MaxMetadataValue = 500
)
