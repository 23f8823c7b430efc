package borough

import (
	"cmp"
	"time"
)

// RetryPolicy says how often and how fast calls are repeated. A zero field has its default.
type RetryPolicy struct {
	// AttemptsMax counts the tries, the first one included. 0: six, over about a second and a half. That is long enough
	// for a gateway to restart, and short enough for a person to wait.
	AttemptsMax int
	// BackoffInitial is the pause before the second try, doubled for each further one. 0: 50 ms.
	BackoffInitial time.Duration
	// BackoffMax is the longest pause. 0: two seconds.
	BackoffMax time.Duration
}

func (policy RetryPolicy) withDefaults() RetryPolicy {
	return RetryPolicy{
		AttemptsMax:    max(1, cmp.Or(policy.AttemptsMax, 6)),
		BackoffInitial: cmp.Or(policy.BackoffInitial, 50*time.Millisecond),
		BackoffMax:     cmp.Or(policy.BackoffMax, 2*time.Second),
	}
}

// pause is the time after so many failed tries: between half and all of the doubled step, by a random number from 0 to
// 1. Clients that lost the same gateway therefore do not come back together.
func (policy RetryPolicy) pause(attempts int, random float64) time.Duration {
	step := policy.BackoffInitial
	for doublings := min(attempts-1, 16); doublings > 0 && step < policy.BackoffMax; doublings-- {
		step *= 2
	}
	half := min(step, policy.BackoffMax) / 2
	return half + time.Duration(random*float64(half))
}
