package borough

import (
	"bytes"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// resumption decides where a broken watch goes on, and which of its messages were delivered before. Pure.
//
// All changes of one commit have one cursor, and a stream may break between them. A watch from that cursor would lose
// the rest of the commit. So the watch goes on from the last complete cursor, which the last change of a commit and
// every bookmark mark. It skips as many changes behind that as it had delivered already.
type resumption struct {
	// base: everything up to and with it was delivered. Nil: a snapshot is incomplete.
	base *pb.Cursor
	// newest is the cursor of the newest changes behind the base.
	newest *pb.Cursor
	// delivered counts the changes with the newest cursor, sent those of them that the open stream has sent.
	delivered, sent int
}

// reopened begins a new stream, and returns where. Nil: with a snapshot.
func (r *resumption) reopened() *pb.Cursor {
	r.sent = 0
	return r.base
}

// inSnapshot reports whether a snapshot is incomplete.
func (r *resumption) inSnapshot() bool { return r.base == nil }

// complete records that everything up to a cursor was sent. It returns false for a cursor that goes back: a gateway that
// is behind the one before may send it.
func (r *resumption) complete(cursor *pb.Cursor) bool {
	if before(cursor, r.base) || before(cursor, r.newest) {
		return false
	}
	*r = resumption{base: cursor}
	return true
}

// accept reports whether a change with this cursor must be delivered, and counts it as delivered.
func (r *resumption) accept(cursor *pb.Cursor) bool {
	switch {
	case r.base == nil:
		return true
	case same(cursor, r.base), before(cursor, r.base), before(cursor, r.newest):
		return false
	case same(cursor, r.newest):
		r.sent++
		if r.sent <= r.delivered {
			return false
		}
		r.delivered = r.sent
		return true
	default:
		if r.newest != nil {
			r.base = r.newest
		}
		r.newest, r.delivered, r.sent = cursor, 1, 1
		return true
	}
}

func same(left, right *pb.Cursor) bool {
	return left != nil && right != nil && left.GetStoreEpoch() == right.GetStoreEpoch() &&
		bytes.Equal(left.GetStamp(), right.GetStamp())
}

// before compares cursors. Those of different epochs have no order.
func before(left, right *pb.Cursor) bool {
	return left != nil && right != nil && left.GetStoreEpoch() == right.GetStoreEpoch() &&
		bytes.Compare(left.GetStamp(), right.GetStamp()) < 0
}
