package borough

import "time"

const (
	// The reader of a stream learns of an outage after this time. A gateway that restarts is mostly back sooner.
	outageReportedAfter = 3 * time.Second
	// A stream that stays open so long without a message shows that a gateway answers again.
	answeredAfter = time.Second
)

// outage is the time for which no gateway answers a stream. The zero value is none. Pure: times are arguments.
type outage struct {
	since    time.Time
	reported bool
}

// outageStep is what an outage has come to.
type outageStep int

const (
	outageNone outageStep = iota
	// outageReport: it lasts so long that the reader must know. It comes once.
	outageReport
	outageGiveUp
)

// begin notes that no gateway answers, unless that is known.
func (o *outage) begin(now time.Time) {
	if o.since.IsZero() {
		o.since = now
	}
}

func (o *outage) lasts() bool { return !o.since.IsZero() }

// step is what the outage has come to. The client tries for the time patience; 0: without end.
func (o *outage) step(now time.Time, patience time.Duration) outageStep {
	switch {
	case !o.lasts():
		return outageNone
	case patience > 0 && now.Sub(o.since) >= patience:
		return outageGiveUp
	case !o.reported && now.Sub(o.since) >= outageReportedAfter:
		o.reported = true
		return outageReport
	default:
		return outageNone
	}
}

// next is the time until the next step; 0: none comes.
func (o *outage) next(now time.Time, patience time.Duration) time.Duration {
	var next time.Duration
	earlier := func(after time.Duration) {
		left := max(time.Millisecond, after-now.Sub(o.since))
		if next == 0 || left < next {
			next = left
		}
	}
	if !o.lasts() {
		return 0
	}
	if patience > 0 {
		earlier(patience)
	}
	if !o.reported {
		earlier(outageReportedAfter)
	}
	return next
}

// left is how long the client still tries; 0: without end.
func (o *outage) left(now time.Time, patience time.Duration) time.Duration {
	if patience == 0 {
		return 0
	}
	return max(time.Millisecond, patience-now.Sub(o.since))
}
