package settlement

// Add counts another wallet of the same round in.
func (r *Report) Add(o Report) { r.add(o) }

// Next counts a later round in.
func (r *Report) Next(round Report) { r.next(round) }
