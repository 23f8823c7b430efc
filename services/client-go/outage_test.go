package borough

import (
	"testing"
	"time"
)

func TestAnOutageIsReportedOnceAndEnds(t *testing.T) {
	begin := time.Unix(1000, 0)
	after := func(d time.Duration) time.Time { return begin.Add(d) }
	const patience = time.Minute
	var o outage
	if o.step(after(time.Hour), patience) != outageNone || o.next(after(0), patience) != 0 {
		t.Fatal("there is none")
	}
	o.begin(begin)
	o.begin(after(time.Second))
	if got := o.next(after(time.Second), patience); got != 2*time.Second {
		t.Fatalf("it is reported in %s", got)
	}
	if o.step(after(2999*time.Millisecond), patience) != outageNone {
		t.Fatal("it is reported too early")
	}
	if o.step(after(3*time.Second), patience) != outageReport || o.step(after(4*time.Second), patience) != outageNone {
		t.Fatal("it is reported once")
	}
	if got := o.left(after(4*time.Second), patience); got != 56*time.Second {
		t.Fatalf("%s are left", got)
	}
	if got := o.next(after(4*time.Second), patience); got != 56*time.Second {
		t.Fatalf("it ends in %s", got)
	}
	if o.step(after(patience), patience) != outageGiveUp {
		t.Fatal("it does not end")
	}
}

func TestWithoutPatienceAnOutageNeverEnds(t *testing.T) {
	begin := time.Unix(1000, 0)
	var o outage
	o.begin(begin)
	if o.step(begin.Add(time.Hour), 0) != outageReport || o.step(begin.Add(9000*time.Hour), 0) != outageNone {
		t.Fatal("it ends")
	}
	if o.left(begin, 0) != 0 || o.next(begin.Add(time.Hour), 0) != 0 {
		t.Fatal("nothing more comes")
	}
}
