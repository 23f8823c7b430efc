package borough

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// EndpointItem is an item of [Client.WatchEndpoints]: [EndpointSnapshot], [EndpointPublished], [EndpointWithdrawn],
// [Bookmark], [Absent] or [Resync].
type EndpointItem interface{ endpointItem() }

// CellItem is an item of [Client.WatchCell]: [CellChange], [Bookmark], [Absent] or [Resync].
type CellItem interface{ cellItem() }

// EndpointSnapshot has every present endpoint. It replaces whatever was known before.
type EndpointSnapshot struct {
	Endpoints []*Endpoint
	// Cursor is where a watch continues the snapshot.
	Cursor *Cursor
}

// EndpointPublished is a new or changed endpoint.
type EndpointPublished struct {
	Endpoint *Endpoint
	Cursor   *Cursor
}

// EndpointWithdrawn is an endpoint that is gone. Its incarnation never comes back.
type EndpointWithdrawn struct {
	Job         JobRef
	Index       uint32
	Incarnation uint64
	Cursor      *Cursor
}

// CellChange is a change of a cell. Its Change says of what: WatchResponse_Job, WatchResponse_Task and so on. Each
// comes once, in order.
type CellChange struct{ *pb.WatchResponse }

// At is the wall time of the change.
func (c CellChange) At() time.Time { return time.UnixMilli(c.GetAtMs()) }

// Bookmark says that everything up to the cursor was yielded.
type Bookmark struct{ Cursor *Cursor }

// Absent says that no gateway answers, once until one does. The watch goes on by itself. What is known of before may
// be used meanwhile.
type Absent struct {
	// Err is what the last try came to.
	Err error
	// GivesUpIn is when the watch ends with that error; 0: it tries without end.
	GivesUpIn time.Duration
}

// Resync says that the gateway cannot resume the watch. In a watch of endpoints a snapshot follows. A watch of a cell
// ends with it: list again, and watch from the cursor of that list.
type Resync struct {
	// Why is the reason, for people.
	Why string
}

func (EndpointSnapshot) endpointItem()  {}
func (EndpointPublished) endpointItem() {}
func (EndpointWithdrawn) endpointItem() {}
func (Bookmark) endpointItem()          {}
func (Absent) endpointItem()            {}
func (Resync) endpointItem()            {}
func (CellChange) cellItem()            {}
func (Bookmark) cellItem()              {}
func (Absent) cellItem()                {}
func (Resync) cellItem()                {}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// WatchEndpoints follows the endpoints of a job, or of all jobs of the user if the name is empty. A snapshot comes
// first, unless resume is given, then every change in order. Broken connections, other gateways and trims lose nothing
// and repeat nothing.
//
// The watch ends without an error when the context ends, and when the caller leaves the loop. An error, such as a
// refusal, is the last item.
func (c *Client) WatchEndpoints(ctx context.Context, job JobRef, resume *Cursor) iter.Seq2[EndpointItem, error] {
	return func(yield func(EndpointItem, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watch := endpointWatch{follower: newFollower(c, c.endpointFeed(job), resume), inSnapshot: resume == nil}
		defer watch.follower.close()
		for {
			followed, err := watch.follower.next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield(nil, err)
				}
				return
			}
			if item := watch.item(followed); item != nil && !yield(item, nil) {
				return
			}
		}
	}
}

func (c *Client) endpointFeed(job JobRef) feed[pb.WatchEndpointsResponse] {
	return feed[pb.WatchEndpointsResponse]{
		method: "WatchEndpoints",
		open: func(resume *pb.Cursor) opener[pb.WatchEndpointsResponse] {
			request := &pb.WatchEndpointsRequest{
				Context: c.reading(), Cell: c.cell, User: c.owner(job), Job: job.Name, Resume: resume,
			}
			return func(ctx context.Context, conn grpc.ClientConnInterface) (answers[pb.WatchEndpointsResponse], error) {
				return pb.NewNameServiceClient(conn).WatchEndpoints(ctx, request)
			}
		},
		cursor: (*pb.WatchEndpointsResponse).GetCursor,
		more:   (*pb.WatchEndpointsResponse).GetMore,
		// An event that this version does not know is no bookmark: others of its commit may follow.
		bookmark: func(m *pb.WatchEndpointsResponse) bool {
			_, is := m.GetEvent().(*pb.WatchEndpointsResponse_Bookmark)
			return is
		},
	}
}

// endpointWatch gathers snapshots. It never yields a broken one.
type endpointWatch struct {
	follower   *follower[pb.WatchEndpointsResponse]
	inSnapshot bool
	snapshot   []*Endpoint
}

// item is an item for the reader; nil: a part of a snapshot, or something unknown.
func (w *endpointWatch) item(followed *followed[pb.WatchEndpointsResponse]) EndpointItem {
	switch {
	case followed.absent != nil:
		return *followed.absent
	case followed.snapshotVoid:
		w.inSnapshot, w.snapshot = true, nil
		return nil
	case followed.trimmed != "":
		w.inSnapshot, w.snapshot = true, nil
		return Resync{followed.trimmed}
	case followed.bookmark != nil && w.inSnapshot:
		item := EndpointSnapshot{w.snapshot, followed.bookmark}
		w.inSnapshot, w.snapshot = false, nil
		return item
	case followed.bookmark != nil:
		return Bookmark{followed.bookmark}
	}
	cursor := followed.change.GetCursor()
	switch event := followed.change.GetEvent().(type) {
	case *pb.WatchEndpointsResponse_Published:
		if w.inSnapshot {
			w.snapshot = append(w.snapshot, event.Published)
			return nil
		}
		return EndpointPublished{event.Published, cursor}
	case *pb.WatchEndpointsResponse_Withdrawn:
		gone := event.Withdrawn
		withdrawn := EndpointWithdrawn{JobRef{gone.GetUser(), gone.GetJob()}, gone.GetIndex(), gone.GetIncarnation(), cursor}
		if w.inSnapshot {
			w.snapshot = withdrawn.from(w.snapshot)
			return nil
		}
		return withdrawn
	default:
		return nil
	}
}

// WatchCell follows all changes of the cell that match, after resume, or from now on. Each comes once and in order,
// without gaps over broken connections and other gateways.
//
// The watch ends without an error when the context ends, when the caller leaves the loop, and after a [Resync]. An
// error, such as a refusal, is the last item.
func (c *Client) WatchCell(ctx context.Context, filter *WatchFilter, resume *Cursor) iter.Seq2[CellItem, error] {
	return func(yield func(CellItem, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if resume == nil {
			// A watch without a cursor would lose changes if its connection broke before the first message.
			_, cursor, err := c.GetCell(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield(nil, err)
				}
				return
			}
			resume = cursor
		}
		follower := newFollower(c, c.cellFeed(filter), resume)
		defer follower.close()
		for {
			followed, err := follower.next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield(nil, err)
				}
				return
			}
			item := cellItem(followed)
			if item != nil && !yield(item, nil) {
				return
			}
			if _, over := item.(Resync); over {
				return
			}
		}
	}
}

func (c *Client) cellFeed(filter *WatchFilter) feed[pb.WatchResponse] {
	return feed[pb.WatchResponse]{
		method: "Watch",
		open: func(resume *pb.Cursor) opener[pb.WatchResponse] {
			request := &pb.WatchRequest{Context: c.reading(), Cell: c.cell, Resume: resume, Filter: filter}
			return func(ctx context.Context, conn grpc.ClientConnInterface) (answers[pb.WatchResponse], error) {
				return pb.NewWatchServiceClient(conn).Watch(ctx, request)
			}
		},
		cursor: (*pb.WatchResponse).GetCursor,
		more:   (*pb.WatchResponse).GetMore,
		bookmark: func(m *pb.WatchResponse) bool {
			_, is := m.GetChange().(*pb.WatchResponse_Bookmark)
			return is
		},
	}
}

// cellItem is an item for the reader; nil: something that this version does not know.
func cellItem(followed *followed[pb.WatchResponse]) CellItem {
	switch {
	case followed.absent != nil:
		return *followed.absent
	case followed.trimmed != "":
		return Resync{followed.trimmed}
	case followed.bookmark != nil:
		return Bookmark{followed.bookmark}
	case followed.change == nil || followed.change.GetChange() == nil:
		return nil
	default:
		return CellChange{followed.change}
	}
}
