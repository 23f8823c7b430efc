package borough

// rotation decides which gateway is used. It keeps one until that fails, and then leaves it until it answers a health
// check. Pure: the pool locks it.
type rotation struct {
	current int
	away    []bool
}

func newRotation(gateways int) *rotation {
	return &rotation{away: make([]bool, gateways)}
}

// choose returns the gateway for the next try. If all have failed, it is the next one in the order all the same.
func (r *rotation) choose() int { return r.current }

// failed leaves a gateway. Calls that fail together on one gateway count once. It reports whether the gateway is newly
// left, so that somebody must check its health.
func (r *rotation) failed(gateway int) bool {
	newly := !r.away[gateway]
	r.away[gateway] = true
	if gateway != r.current {
		return newly
	}
	r.current = r.next(gateway)
	return newly
}

// next is the first gateway behind this one that has not failed, or the one behind it if all have.
func (r *rotation) next(gateway int) int {
	for step := 1; step < len(r.away); step++ {
		if at := (gateway + step) % len(r.away); !r.away[at] {
			return at
		}
	}
	return (gateway + 1) % len(r.away)
}

// answered takes a gateway back.
func (r *rotation) answered(gateway int) {
	r.away[gateway] = false
	if r.away[r.current] {
		r.current = gateway
	}
}

// untried counts the gateways that a call has not tried, at least 1. The time that is left is divided by it. Those that
// have failed have a share too: they may be back, and the one in use may be silent.
func (r *rotation) untried(tried map[int]bool) int {
	count := 0
	for gateway := range r.away {
		if !tried[gateway] {
			count++
		}
	}
	return max(1, count)
}
