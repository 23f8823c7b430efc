package borough

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// feed is a kind of watch: how to open it, and how to read its messages.
type feed[M any] struct {
	method string
	open   func(resume *pb.Cursor) opener[M]
	cursor func(*M) *pb.Cursor
	// more: further changes of the same commit follow, with the same cursor.
	more func(*M) bool
	// bookmark: everything up to the cursor was sent.
	bookmark func(*M) bool
}

// follower keeps a watch open over broken connections, by the rules of resumption.
type follower[M any] struct {
	client *Client
	feed   feed[M]
	resumption
	source *source[M]
	opened bool
	// attempts counts the tries in a row without a message.
	attempts int
	outage   outage
	// last is what the last of these tries came to.
	last *RefusedError
}

// followed is an item of a follower. One of its fields is set.
type followed[M any] struct {
	change   *M
	bookmark *pb.Cursor
	// snapshotVoid: the stream begins again inside a snapshot, so what was delivered of it is void.
	snapshotVoid bool
	// trimmed says why the gateway cannot resume the watch. The next stream begins with a snapshot.
	trimmed string
	absent  *Absent
}

func newFollower[M any](client *Client, feed feed[M], base *pb.Cursor) *follower[M] {
	return &follower[M]{client: client, feed: feed, resumption: resumption{base: base}}
}

// close ends the open stream.
func (f *follower[M]) close() {
	if f.source != nil {
		f.source.cancel()
		f.source = nil
	}
	f.opened = false
}

// next waits for the next item. The error is final. With the error of the context, the caller has cancelled.
func (f *follower[M]) next(ctx context.Context) (*followed[M], error) {
	for {
		if item, err := f.outageItem(); item != nil || err != nil {
			return item, err
		}
		if f.source == nil {
			if err := f.client.checkScope(f.feed.method); err != nil {
				return nil, err
			}
			f.source = openSource(ctx, f.client, f.feed.open(f.reopened()))
		}
		item, err := f.step(ctx)
		if item != nil || err != nil {
			return item, err
		}
	}
}

// step waits for one thing to happen. It returns nil if nothing of it concerns the reader.
func (f *follower[M]) step(ctx context.Context) (*followed[M], error) {
	var timeout <-chan time.Time
	if wait := f.patience(); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout:
		return f.waited(ctx)
	case got := <-f.source.received:
		switch {
		case got.ended:
			return f.broken(ctx, got.refused)
		case got.message == nil:
			f.opened = true
			return nil, nil
		default:
			return f.message(got.message), nil
		}
	}
}

// patience is how long step waits; 0: without end.
func (f *follower[M]) patience() time.Duration {
	switch {
	case f.opened && f.outage.lasts():
		return answeredAfter
	case f.opened:
		return 0
	}
	limit := f.client.shared.pool.openLimit(f.client.config().Deadline)
	if next := f.outage.next(time.Now(), f.client.config().WatchPatience); next > 0 {
		limit = min(limit, next)
	}
	return limit
}

// waited handles a wait that is over.
func (f *follower[M]) waited(ctx context.Context) (*followed[M], error) {
	if f.opened {
		// Nothing has changed, and the reader must not wait for the next change to learn that a gateway answers.
		reported := f.outage.reported
		f.answered()
		if reported && f.base != nil {
			return &followed[M]{bookmark: f.base}, nil
		}
		return nil, nil
	}
	if next := f.outage.next(time.Now(), f.client.config().WatchPatience); next > 0 && next <= time.Millisecond {
		return nil, nil
	}
	return f.broken(ctx, nil)
}

func (f *follower[M]) answered() {
	f.attempts, f.outage, f.last = 0, outage{}, nil
}

// outageItem is what the reader must know of an outage.
func (f *follower[M]) outageItem() (*followed[M], error) {
	now, patience := time.Now(), f.client.config().WatchPatience
	switch f.outage.step(now, patience) {
	case outageReport:
		absent := &Absent{f.unreachable(), f.outage.left(now, patience)}
		return &followed[M]{absent: absent}, nil
	case outageGiveUp:
		return nil, f.unreachable()
	default:
		return nil, nil
	}
}

func (f *follower[M]) unreachable() error {
	return f.client.unanswered(&tries{method: f.feed.method, count: max(1, f.attempts), last: f.last})
}

// message handles a message. Nil: it was delivered before.
func (f *follower[M]) message(message *M) *followed[M] {
	f.answered()
	cursor := f.feed.cursor(message)
	switch {
	case f.feed.bookmark(message):
		if cursor == nil || !f.complete(cursor) {
			return nil
		}
		return &followed[M]{bookmark: cursor}
	case cursor == nil:
		return &followed[M]{change: message}
	}
	fresh := f.accept(cursor)
	if !f.feed.more(message) && !f.inSnapshot() {
		f.complete(cursor)
	}
	if !fresh {
		return nil
	}
	return &followed[M]{change: message}
}

// broken prepares the next stream, after a pause. Without a refusal the stream has ended, or did not open in time.
func (f *follower[M]) broken(ctx context.Context, refused *RefusedError) (*followed[M], error) {
	if refused == nil || gatewayFailed(refused) {
		f.client.shared.pool.failed(f.source.number)
	}
	f.close()
	f.attempts++
	if refused != nil && refused.Code == codes.OutOfRange {
		f.resumption = resumption{}
		// A gateway that trims again at once must not be asked in a tight loop.
		if f.attempts > 1 && !f.pause(ctx, nil) {
			return nil, ctx.Err()
		}
		return &followed[M]{trimmed: cmp.Or(refused.Message, "the cursor is too old")}, nil
	}
	if refused != nil && verdictOf(refused) == verdictFinal {
		return nil, f.client.meaning(refused)
	}
	f.outage.begin(time.Now())
	if refused != nil {
		f.last = refused
	}
	f.client.log().DebugContext(ctx, "a watch broke; the client opens it again", "method", f.feed.method,
		"attempts", f.attempts, "status", refused)
	if !f.pause(ctx, refused) {
		return nil, ctx.Err()
	}
	if f.inSnapshot() {
		return &followed[M]{snapshotVoid: true}, nil
	}
	return nil, nil
}

// pause waits before the next stream, at least as long as a gateway asks for.
func (f *follower[M]) pause(ctx context.Context, refused *RefusedError) bool {
	pause := f.client.config().Retry.pause(f.attempts, rand.Float64())
	if refused != nil {
		pause = max(pause, refused.RetryAfter)
	}
	return sleep(ctx, pause)
}
