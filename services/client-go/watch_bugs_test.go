package borough

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// These are the bugs that the robustness tests of etcd have found in watches: each as a conversation in which they
// would show.

// published is a message with one endpoint, at a cursor.
func published(stamp byte, incarnation uint64, more bool) *pb.WatchEndpointsResponse {
	endpoint := &pb.Endpoint{User: "ann", Job: "web", Index: uint32(incarnation), Incarnation: incarnation}
	return &pb.WatchEndpointsResponse{
		Cursor: cursor(stamp), More: more, Event: &pb.WatchEndpointsResponse_Published{Published: endpoint},
	}
}

func bookmark(stamp byte) *pb.WatchEndpointsResponse {
	return &pb.WatchEndpointsResponse{Cursor: cursor(stamp), Event: &pb.WatchEndpointsResponse_Bookmark{Bookmark: true}}
}

// scripted is one stream of a gateway: where the client must resume (0: with a snapshot), what is sent, and the end.
type scripted struct {
	resume byte
	sends  []*pb.WatchEndpointsResponse
	end    error
}

// shown is an item in short.
func shown(item EndpointItem) string {
	at := func(cursor *Cursor) byte { return cursor.GetStamp()[9] }
	switch item := item.(type) {
	case EndpointSnapshot:
		return fmt.Sprintf("snapshot of %d at %d", len(item.Endpoints), at(item.Cursor))
	case EndpointPublished:
		return fmt.Sprintf("%d at %d", item.Endpoint.GetIncarnation(), at(item.Cursor))
	case Bookmark:
		return fmt.Sprintf("bookmark %d", at(item.Cursor))
	case Resync:
		return "resync: " + item.Why
	default:
		return fmt.Sprintf("%T", item)
	}
}

// converse runs the streams, each on the other of two gateways, and expects these items.
func converse(t *testing.T, streams []scripted, want ...string) {
	t.Helper()
	var number atomic.Int32
	handler := fake.Stream(func(ctx context.Context, request *pb.WatchEndpointsRequest, send func(*pb.WatchEndpointsResponse) error) error {
		at := int(number.Add(1)) - 1
		if at >= len(streams) {
			<-ctx.Done()
			return ctx.Err()
		}
		resume := byte(0)
		if request.GetResume() != nil {
			resume = request.GetResume().GetStamp()[9]
		}
		if resume != streams[at].resume {
			t.Errorf("stream %d resumes at %d and not at %d", at, resume, streams[at].resume)
		}
		for _, message := range streams[at].sends {
			if err := send(message); err != nil {
				return err
			}
		}
		return streams[at].end
	})
	first, second := fake.New(t), fake.New(t)
	first.On("WatchEndpoints", handler)
	second.On("WatchEndpoints", handler)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	for item, err := range clientOf(t, Config{}, first.Address, second.Address).WatchEndpoints(ctx, JobRef{Name: "web"}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, shown(item)); len(got) == len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q and not %q", got, want)
	}
}

type sends = []*pb.WatchEndpointsResponse

// etcd 15271: after a partition a member that is behind shows the past again.
func TestAGatewayThatIsBehindDoesNotTakeTheWatchBack(t *testing.T) {
	converse(t, []scripted{
		{0, sends{published(5, 1, true), bookmark(5), published(6, 2, false), published(7, 3, false)}, errBreak},
		{7, sends{bookmark(5), published(6, 2, false), published(7, 3, false), bookmark(6), published(8, 4, false)}, errBreak},
		{8, sends{bookmark(9)}, nil},
	}, "snapshot of 1 at 5", "2 at 6", "3 at 7", "4 at 8", "bookmark 9")
}

// etcd 17247: an event comes twice, if the watch resumes in the middle of what one commit has changed.
func TestACommitThatWasCutIsDeliveredOnce(t *testing.T) {
	commit := sends{published(6, 2, true), published(6, 3, true), published(6, 4, false)}
	converse(t, []scripted{
		{0, sends{bookmark(5), commit[0]}, errBreak},
		{5, commit[:2], errBreak},
		{5, append(slices.Clone(commit), published(7, 5, false)), nil},
	}, "snapshot of 0 at 5", "2 at 6", "3 at 6", "4 at 6", "5 at 7")
}

// etcd 18089 and 19179: a compaction drops events that the watch has not seen.
func TestATrimIsSaidAndFollowedByASnapshot(t *testing.T) {
	trimmed := status.Error(codes.OutOfRange, "list again")
	converse(t, []scripted{
		{0, sends{published(5, 1, true), bookmark(5), published(6, 2, true)}, errBreak},
		{5, nil, trimmed},
		{0, sends{published(9, 2, true), published(9, 3, true)}, errBreak},
		{0, sends{published(9, 2, true), published(9, 3, true), bookmark(9)}, nil},
	}, "snapshot of 1 at 5", "2 at 6", "resync: list again", "snapshot of 2 at 9")
}

// etcd 15220: a progress notification is ahead of the events before it.
func TestABookmarkBehindAnOpenCommitIsNotPassedOn(t *testing.T) {
	converse(t, []scripted{
		{0, sends{bookmark(5), published(7, 2, true), bookmark(6)}, errBreak},
		{5, sends{published(7, 2, true), published(7, 3, false), bookmark(8)}, nil},
	}, "snapshot of 0 at 5", "2 at 7", "3 at 7", "bookmark 8")
}

// etcd 17529: a slow reader loses events.
func TestASlowReaderGetsEveryChange(t *testing.T) {
	const changes = 20_000
	gateway := fake.New(t)
	gateway.On("WatchEndpoints", fake.Stream(func(ctx context.Context, _ *pb.WatchEndpointsRequest, send func(*pb.WatchEndpointsResponse) error) error {
		if err := send(bookmark(1)); err != nil {
			return err
		}
		for number := range uint64(changes) {
			message := published(2, number+1, false)
			message.Cursor.Stamp = fmt.Appendf(nil, "1%09d", number)
			if err := send(message); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	next := uint64(0)
	for item, err := range clientOf(t, Config{}, gateway.Address).WatchEndpoints(t.Context(), JobRef{Name: "web"}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if next == 0 {
			// The gateway has sent as much as the connection holds before the first change is read.
			waitFor(t, "the gateway to be ahead", func() bool { return gateway.Calls("WatchEndpoints") == 1 })
		} else if change, is := item.(EndpointPublished); !is || change.Endpoint.GetIncarnation() != next {
			t.Fatalf("%v and not change %d", item, next)
		}
		if next++; next > changes {
			break
		}
	}
}
