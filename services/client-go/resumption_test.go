package borough

import (
	"math/rand/v2"
	"slices"
	"testing"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

func cursor(stamp byte) *pb.Cursor {
	return &pb.Cursor{StoreEpoch: 1, Stamp: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, stamp}}
}

// sentChange is one message of a watch, as a gateway would send it. Change 0 is a bookmark.
type sentChange struct {
	stamp  byte
	change int
	more   bool
}

// randomLog has commits of up to three changes, and bookmarks after some of them.
func randomLog(random *rand.Rand) []sentChange {
	var log []sentChange
	number := 0
	for stamp := byte(1); int(stamp) <= 1+random.IntN(20); stamp++ {
		changes := random.IntN(4)
		for left := changes; left > 0; left-- {
			number++
			log = append(log, sentChange{stamp, number, left > 1})
		}
		if random.IntN(2) == 0 {
			log = append(log, sentChange{stamp, 0, false})
		}
	}
	return log
}

// However often a stream breaks, every change is delivered once and in order.
func TestBreaksNeitherLoseNorRepeat(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		log := randomLog(random)
		watch := resumption{base: cursor(0)}
		var delivered, all []int
		for try := 0; ; try++ {
			last := try == 12
			limit := random.IntN(12)
			from := watch.reopened().GetStamp()[9]
			for _, sent := range log {
				if sent.stamp <= from {
					continue
				}
				if limit--; limit < 0 && !last {
					break
				}
				if sent.change == 0 {
					watch.complete(cursor(sent.stamp))
					continue
				}
				if watch.accept(cursor(sent.stamp)) {
					delivered = append(delivered, sent.change)
				}
				if !sent.more {
					watch.complete(cursor(sent.stamp))
				}
			}
			if last {
				break
			}
		}
		for _, sent := range log {
			if sent.change > 0 {
				all = append(all, sent.change)
			}
		}
		if !slices.Equal(delivered, all) {
			t.Fatalf("seed %d: delivered %v of %v", seed, delivered, all)
		}
	}
}

func TestWhatIsCompleteIsNotDeliveredAgain(t *testing.T) {
	watch := resumption{base: cursor(5)}
	if watch.accept(cursor(5)) || !watch.accept(cursor(6)) {
		t.Fatal("5 was delivered before, and 6 was not")
	}
	watch.complete(cursor(6))
	if !same(watch.reopened(), cursor(6)) || watch.accept(cursor(6)) || !watch.accept(cursor(7)) {
		t.Fatal("6 is complete, and 7 is new")
	}
}

func TestALateBookmarkDoesNotGoBack(t *testing.T) {
	watch := resumption{base: cursor(5)}
	watch.accept(cursor(7))
	if watch.complete(cursor(6)) {
		t.Fatal("the bookmark goes back")
	}
	if watch.accept(cursor(6)) || !same(watch.reopened(), cursor(5)) {
		t.Fatal("the commit at 7 may be incomplete, so the watch goes on from 5")
	}
}

func TestASnapshotBeginsAgainUntilItIsComplete(t *testing.T) {
	var watch resumption
	for range 2 {
		if watch.reopened() != nil || !watch.accept(cursor(3)) || !watch.inSnapshot() {
			t.Fatal("a snapshot is delivered from its begin")
		}
	}
	watch.complete(cursor(3))
	if !same(watch.reopened(), cursor(3)) {
		t.Fatal("the snapshot is complete")
	}
}

func TestCursorsOfDifferentEpochsHaveNoOrder(t *testing.T) {
	other := cursor(1)
	other.StoreEpoch = 2
	if before(other, cursor(5)) || before(cursor(5), other) || same(other, cursor(1)) {
		t.Fatal("epochs 1 and 2 are compared")
	}
	watch := resumption{base: cursor(5)}
	if !watch.accept(other) {
		t.Fatal("a change of another epoch is new")
	}
}
