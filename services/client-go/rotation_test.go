package borough

import (
	"math/rand/v2"
	"testing"
)

func TestAGatewayIsKeptUntilItFails(t *testing.T) {
	r := newRotation(3)
	for range 2 {
		if r.choose() != 0 {
			t.Fatal("the first one is kept")
		}
	}
	if !r.failed(0) || r.failed(0) {
		t.Fatal("calls that fail together count once")
	}
	if r.choose() != 1 {
		t.Fatalf("the next one is used, and not %d", r.choose())
	}
	r.failed(1)
	r.answered(0)
	if r.choose() != 2 {
		t.Fatal("one that works is kept, also when an earlier one is back")
	}
	r.failed(2)
	if r.choose() != 0 {
		t.Fatal("the one that is back is used")
	}
}

func TestIfAllFailTheyAreTriedInTurn(t *testing.T) {
	r := newRotation(2)
	r.failed(0)
	r.failed(1)
	for _, want := range []int{0, 1, 0} {
		if r.choose() != want {
			t.Fatalf("%d and not %d", r.choose(), want)
		}
		r.failed(want)
	}
	r.answered(0)
	if r.choose() != 0 {
		t.Fatal("the one that answers is used")
	}
}

func TestTheTimeIsSharedByGatewaysThatMayAnswer(t *testing.T) {
	r := newRotation(3)
	r.failed(0)
	tried := map[int]bool{}
	for _, want := range []int{3, 2, 1, 1} {
		if got := r.untried(tried); got != want {
			t.Errorf("with %v tried the time is divided by %d, and not by %d", tried, got, want)
		}
		tried[len(tried)] = true
	}
}

// Whatever fails and answers, a gateway that works is used if there is one.
func TestRotationUsesAGatewayThatWorks(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRotation(1 + random.IntN(5))
		for range 200 {
			gateway := random.IntN(len(r.away))
			if random.IntN(2) == 0 {
				r.failed(gateway)
			} else {
				r.answered(gateway)
			}
			works := false
			for _, away := range r.away {
				works = works || !away
			}
			if chosen := r.choose(); works && r.away[chosen] {
				t.Fatalf("seed %d: %d is chosen of %v", seed, chosen, r.away)
			}
		}
	}
}
