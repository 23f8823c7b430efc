package borough

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// names is a model of a cell's endpoints: what is published now, and the journal of its changes.
type names struct {
	random *rand.Rand

	mu      sync.Mutex
	present map[uint32]*pb.Endpoint
	// journal has commits: its index is the stamp less 1. Entries before trimmed are gone.
	journal [][]*pb.WatchEndpointsResponse
	trimmed int
	next    uint64
	changed chan struct{}
}

func newNames(random *rand.Rand) *names {
	return &names{random: random, present: map[uint32]*pb.Endpoint{}, changed: make(chan struct{})}
}

func (n *names) cursor(stamp int) *pb.Cursor {
	return &pb.Cursor{StoreEpoch: 1, Stamp: fmt.Appendf(nil, "%010d", stamp)}
}

// commit makes up to three changes with one cursor. Some are of a kind that the client does not know.
func (n *names) commit() {
	n.mu.Lock()
	defer n.mu.Unlock()
	stamp := len(n.journal) + 1
	var changes []*pb.WatchEndpointsResponse
	for range 1 + n.random.IntN(3) {
		index := uint32(n.random.IntN(6))
		change := &pb.WatchEndpointsResponse{Cursor: n.cursor(stamp), More: true}
		known := n.present[index]
		switch {
		case n.random.IntN(5) == 0:
		case known != nil:
			change.Event = &pb.WatchEndpointsResponse_Withdrawn{Withdrawn: &pb.EndpointWithdrawn{
				User: "ann", Job: "web", Index: index, Incarnation: known.GetIncarnation(),
			}}
			delete(n.present, index)
		default:
			n.next++
			endpoint := &pb.Endpoint{User: "ann", Job: "web", Index: index, Incarnation: n.next}
			change.Event = &pb.WatchEndpointsResponse_Published{Published: endpoint}
			n.present[index] = endpoint
		}
		changes = append(changes, change)
	}
	changes[len(changes)-1].More = false
	n.journal = append(n.journal, changes)
	close(n.changed)
	n.changed = make(chan struct{})
}

// trim forgets the journal.
func (n *names) trim() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trimmed = len(n.journal)
}

var errBreak = status.Error(codes.Unavailable, "the gateway stops")

// serve is WatchEndpoints. Each stream breaks after a random number of messages while faults is set.
func (n *names) serve(faults func() bool) fake.Handler {
	return fake.Stream(func(ctx context.Context, request *pb.WatchEndpointsRequest, send func(*pb.WatchEndpointsResponse) error) error {
		n.mu.Lock()
		left := n.random.IntN(8)
		n.mu.Unlock()
		sending := func(message *pb.WatchEndpointsResponse) error {
			if left--; left < 0 && faults() {
				return errBreak
			}
			return send(message)
		}
		at, err := n.begin(request.GetResume(), sending)
		for err == nil {
			n.mu.Lock()
			var commit []*pb.WatchEndpointsResponse
			changed := n.changed
			if at < len(n.journal) {
				commit = n.journal[at]
			}
			n.mu.Unlock()
			if commit == nil {
				err = sending(&pb.WatchEndpointsResponse{Cursor: n.cursor(at), Event: &pb.WatchEndpointsResponse_Bookmark{Bookmark: true}})
				select {
				case <-changed:
				case <-ctx.Done():
					return ctx.Err()
				}
				continue
			}
			for _, change := range commit {
				if err == nil {
					err = sending(change)
				}
			}
			at++
		}
		return err
	})
}

// begin sends a snapshot, or goes on behind a cursor.
func (n *names) begin(resume *pb.Cursor, send func(*pb.WatchEndpointsResponse) error) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if resume != nil {
		var at int
		if _, err := fmt.Sscanf(string(resume.GetStamp()), "%d", &at); err != nil {
			return 0, status.Error(codes.InvalidArgument, err.Error())
		}
		if at < n.trimmed {
			return 0, status.Error(codes.OutOfRange, "list again")
		}
		return at, nil
	}
	at := len(n.journal)
	for _, endpoint := range n.present {
		message := &pb.WatchEndpointsResponse{
			Cursor: n.cursor(at), More: true, Event: &pb.WatchEndpointsResponse_Published{Published: endpoint},
		}
		if err := send(message); err != nil {
			return 0, err
		}
	}
	return at, send(&pb.WatchEndpointsResponse{Cursor: n.cursor(at), Event: &pb.WatchEndpointsResponse_Bookmark{Bookmark: true}})
}

// watcher checks each item of a watch against what came before.
type watcher struct {
	table     EndpointTable
	seen      map[uint64]int
	withdrawn map[uint64]bool
	cursor    string
	resyncs   int
}

func (w *watcher) check(item EndpointItem) error {
	forward := func(cursor *pb.Cursor) error {
		stamp := string(cursor.GetStamp())
		if stamp < w.cursor {
			return fmt.Errorf("the cursor goes back from %s to %s", w.cursor, stamp)
		}
		w.cursor = stamp
		return nil
	}
	w.table.Apply(item)
	switch item := item.(type) {
	case EndpointSnapshot:
		if w.table.Complete() && len(w.seen) > 0 && w.resyncs == 0 {
			return errors.New("there are two snapshots without a resync")
		}
		w.seen = map[uint64]int{}
		w.resyncs = 0
		for _, endpoint := range item.Endpoints {
			if w.seen[endpoint.GetIncarnation()]++; w.seen[endpoint.GetIncarnation()] > 1 {
				return fmt.Errorf("incarnation %d is twice in a snapshot", endpoint.GetIncarnation())
			}
			if w.withdrawn[endpoint.GetIncarnation()] {
				return fmt.Errorf("incarnation %d comes back", endpoint.GetIncarnation())
			}
		}
		return forward(item.Cursor)
	case EndpointPublished:
		number := item.Endpoint.GetIncarnation()
		if w.seen[number]++; w.seen[number] > 1 || w.withdrawn[number] {
			return fmt.Errorf("incarnation %d is published twice", number)
		}
		return forward(item.Cursor)
	case EndpointWithdrawn:
		if w.withdrawn[item.Incarnation] {
			return fmt.Errorf("incarnation %d is withdrawn twice", item.Incarnation)
		}
		if w.seen[item.Incarnation] == 0 {
			return fmt.Errorf("incarnation %d is withdrawn and was never published", item.Incarnation)
		}
		w.withdrawn[item.Incarnation] = true
		return forward(item.Cursor)
	case Bookmark:
		return forward(item.Cursor)
	case Resync:
		w.resyncs++
	}
	return nil
}

// Streams break, gateways change and journals are trimmed at random. Every change comes once, and at the end the watch
// knows what the model knows.
func TestAWatchOverRandomFaultsAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 3))
			model := newNames(rand.New(rand.NewPCG(seed, 4)))
			var quiet sync.Mutex
			faulty := true
			faults := func() bool {
				quiet.Lock()
				defer quiet.Unlock()
				return faulty
			}
			first, second := fake.New(t), fake.New(t)
			first.On("WatchEndpoints", model.serve(faults))
			second.On("WatchEndpoints", model.serve(faults))
			client := clientOf(t, Config{Retry: RetryPolicy{BackoffInitial: time.Microsecond, BackoffMax: time.Millisecond}},
				first.Address, second.Address)
			go func() {
				for range 80 {
					model.commit()
					time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
					switch random.IntN(20) {
					case 0:
						first.Cut()
					case 1:
						second.Cut()
					case 2:
						model.trim()
					}
				}
				quiet.Lock()
				faulty = false
				quiet.Unlock()
				model.commit()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			watch := watcher{withdrawn: map[uint64]bool{}}
			for item, err := range client.WatchEndpoints(ctx, JobRef{Name: "web"}, nil) {
				if err == nil {
					err = watch.check(item)
				}
				if err != nil {
					t.Fatalf("%T: %v", item, err)
				}
				if faults() {
					continue
				}
				if mark, is := item.(Bookmark); is && model.agrees(&watch.table, mark.Cursor) {
					return
				}
			}
			t.Fatalf("the watch has not seen the last commit: %v", ctx.Err())
		})
	}
}

// agrees compares what a watch knows with the model, once the watch has seen the last commit.
func (n *names) agrees(table *EndpointTable, cursor *pb.Cursor) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !same(cursor, n.cursor(len(n.journal))) || len(n.journal) <= 80 {
		return false
	}
	var all []*pb.Endpoint
	for _, endpoint := range n.present {
		all = append(all, endpoint)
	}
	slices.SortFunc(all, func(one, other *pb.Endpoint) int { return int(one.GetIndex()) - int(other.GetIndex()) })
	return slices.EqualFunc(table.Endpoints(), all, func(one, other *pb.Endpoint) bool { return proto.Equal(one, other) })
}

func TestAWatchSaysOnceThatNoGatewayAnswersAndGivesUp(t *testing.T) {
	t.Parallel()
	client := clientOf(t, Config{WatchPatience: 8 * time.Second}, deadAddress(t), deadAddress(t))
	absences := 0
	var last error
	for item, err := range client.WatchEndpoints(t.Context(), JobRef{Name: "web"}, nil) {
		if absent, is := item.(Absent); is {
			absences++
			if absent.GivesUpIn <= 0 || absent.Err == nil {
				t.Errorf("%+v", absent)
			}
		}
		last = err
	}
	var unreachable *UnreachableError
	if absences != 1 || !errors.As(last, &unreachable) {
		t.Errorf("%d absences, and the end is %v", absences, last)
	}
}

func TestAWatchOpensOnTheNextGatewayIfOneIsSilent(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("WatchEndpoints", newNames(rand.New(rand.NewPCG(1, 1))).serve(func() bool { return false }))
	client := clientOf(t, Config{Deadline: time.Second}, silentAddress(t), gateway.Address)
	for item, err := range client.WatchEndpoints(t.Context(), JobRef{Name: "web"}, nil) {
		if _, is := item.(EndpointSnapshot); !is || err != nil {
			t.Errorf("%v, %v", item, err)
		}
		break
	}
}

func TestARefusalEndsAWatch(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("WatchEndpoints", fake.Stream(func(context.Context, *pb.WatchEndpointsRequest, func(*pb.WatchEndpointsResponse) error) error {
		return statusOf(t, codes.PermissionDenied, "no right", reasonOf("ACCESS_REFUSED")).Err()
	}))
	client := clientOf(t, Config{}, gateway.Address)
	_, err := Collect(client.WatchEndpoints(t.Context(), JobRef{Name: "web"}, nil))
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != "ACCESS_REFUSED" {
		t.Errorf("%v", err)
	}
}

func TestAWatchEndsCleanlyAndLeavesNothing(t *testing.T) {
	gateway := fake.New(t)
	model := newNames(rand.New(rand.NewPCG(1, 1)))
	gateway.On("WatchEndpoints", model.serve(func() bool { return false }))
	client := clientOf(t, Config{}, gateway.Address)
	for _, leave := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		for _, err := range client.WatchEndpoints(ctx, JobRef{Name: "web"}, nil) {
			if err != nil {
				t.Error(err)
			}
			if leave {
				break
			}
			cancel()
		}
		cancel()
	}
	waitFor(t, "the end of what reads the streams", func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "client-go.(*source")
	})
}

func TestAWatchOfACellEndsWithAResync(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("GetCell", fake.Unary(func(context.Context, *pb.GetCellRequest) (*pb.GetCellResponse, error) {
		return &pb.GetCellResponse{Cell: &pb.Cell{Name: "alpha"}, Cursor: cursor(1)}, nil
	}))
	gateway.On("Watch", fake.Stream(func(_ context.Context, request *pb.WatchRequest, send func(*pb.WatchResponse) error) error {
		if !same(request.GetResume(), cursor(1)) && !same(request.GetResume(), cursor(3)) {
			t.Errorf("the watch goes on at %v", request.GetResume())
		}
		if same(request.GetResume(), cursor(3)) {
			return status.Error(codes.OutOfRange, "list again")
		}
		for _, message := range []*pb.WatchResponse{
			{Cursor: cursor(2), Change: &pb.WatchResponse_Job{Job: &pb.Job{Name: "web"}}, AtMs: 1000, Actor: "user/ann"},
			// A kind of a later version.
			{Cursor: cursor(3)},
		} {
			if err := send(message); err != nil {
				return err
			}
		}
		return errBreak
	}))
	client := clientOf(t, Config{}, gateway.Address)
	items, err := Collect(client.WatchCell(t.Context(), &WatchFilter{}, nil))
	if err != nil || len(items) != 2 {
		t.Fatalf("%v, %v", items, err)
	}
	change, is := items[0].(CellChange)
	if !is || change.GetJob().GetName() != "web" || !change.At().Equal(time.UnixMilli(1000)) {
		t.Errorf("%v", items[0])
	}
	if items[1] != (Resync{"list again"}) {
		t.Errorf("%v", items[1])
	}
}

func TestATableKeepsALaterAttempt(t *testing.T) {
	var table EndpointTable
	endpoint := func(incarnation uint64) *Endpoint {
		return &Endpoint{User: "ann", Job: "web", Index: 1, Incarnation: incarnation}
	}
	if table.Complete() {
		t.Error("nothing has come")
	}
	table.Apply(EndpointSnapshot{Endpoints: []*Endpoint{endpoint(4)}})
	table.Apply(EndpointPublished{Endpoint: endpoint(5)})
	if table.Apply(EndpointWithdrawn{Job: JobRef{"ann", "web"}, Index: 1, Incarnation: 4}) {
		t.Error("the withdrawal of an earlier attempt changes something")
	}
	if all := table.Endpoints(); len(all) != 1 || all[0].GetIncarnation() != 5 {
		t.Errorf("%v", all)
	}
	if table.Apply(Resync{}) || table.Apply(Absent{}) || table.Apply(Bookmark{}) {
		t.Error("what is known holds")
	}
	if !table.Apply(EndpointWithdrawn{Job: JobRef{"ann", "web"}, Index: 1, Incarnation: 5}) || len(table.Endpoints()) != 0 {
		t.Error("it is gone")
	}
}
