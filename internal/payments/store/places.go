package store

import (
	"context"
	"errors"
	"time"
)

// ErrFull reports that a merchant has taken all of its places.
var ErrFull = errors.New("every place of the merchant is taken")

// MaxPlaces is the most places of a merchant. Each takes some 60 bytes of one item.
const MaxPlaces = 100

// A Place is a request under way. It ends at Until if it is not given back.
type Place struct {
	Merchant, ID string
	Until        time.Time
}

// Places counts the requests of a merchant that are under way in all processes.
type Places interface {
	// Take takes a place, or returns ErrFull if the merchant has most places that have not ended by
	// now. Taking a place again changes nothing. More than MaxPlaces are ErrTooLarge.
	Take(ctx context.Context, p Place, now time.Time, most int) error

	// Leave returns a place. Repeating it changes nothing.
	Leave(ctx context.Context, p Place) error
}
