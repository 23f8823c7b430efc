package task

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	borough "example.invalid/borough/services/client-go"
	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// environment is what an agent gives a task.
var environment = []string{
	"BOROUGH_CELL=alpha", "BOROUGH_USER=ann", "BOROUGH_JOB=web", "BOROUGH_INDEX=1", "BOROUGH_ATTEMPT=18446744073709551615",
	"BOROUGH_NODE=alpha-1", "BOROUGH_TASK_DIR=/var/task", "HOST=10.0.0.5", "PORT=20001", "PORT_HTTP=20001",
	"PORT_MY_ADMIN=20002", "BOROUGH_ROLE=worker", "BOROUGH_ROLE_INDEX=0", "BOROUGH_ALLOC=places/3",
	"BOROUGH_ALLOC_SET=places", "BOROUGH_ALLOC_INDEX=3", "BOROUGH_ALLOC_DIR=/var/alloc", "BOROUGH_ALLOC_PORT_HTTP_IN=30001",
}

func TestATaskKnowsWhoItIs(t *testing.T) {
	self, err := read(environment)
	if err != nil {
		t.Fatal(err)
	}
	if *self.Alloc != (Alloc{"places", 3, "/var/alloc"}) {
		t.Errorf("%+v", self.Alloc)
	}
	if self.Name() != "1.web.ann.alpha" || self.Ref().String() != "ann/web/1" {
		t.Errorf("%s, %s", self.Name(), self.Ref())
	}
	got, want := *self, Identity{
		Cell: "alpha", User: "ann", Job: "web", Index: 1, Attempt: 1<<64 - 1, Node: "alpha-1", Host: "10.0.0.5",
		Directory: "/var/task", Role: "worker", Alloc: self.Alloc,
	}
	got.environment = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v and not %+v", got, want)
	}
}

func TestATaskKnowsItsPorts(t *testing.T) {
	self, err := read(environment)
	if err != nil {
		t.Fatal(err)
	}
	if http, err := self.Port("http"); err != nil || http != 20001 {
		t.Errorf("%d, %v", http, err)
	}
	if admin, err := self.Port("my-admin"); err != nil || admin != 20002 {
		t.Errorf("%d, %v", admin, err)
	}
	if inside, err := self.AllocPort("http-in"); err != nil || inside != 30001 {
		t.Errorf("%d, %v", inside, err)
	}
	if _, err := self.Port("nope"); err == nil || err.Error() != `the task has no port "nope"; known: http, my-admin` {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNoTaskIsRecognized(t *testing.T) {
	if _, err := read([]string{"PATH=/bin"}); !errors.Is(err, ErrOutside) {
		t.Errorf("%v", err)
	}
	for _, wrong := range []string{"BOROUGH_INDEX=-1", "BOROUGH_ATTEMPT=x", "BOROUGH_INDEX="} {
		name, _, _ := strings.Cut(wrong, "=")
		if _, err := read(append(append([]string{}, environment...), wrong)); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, err := read([]string{"BOROUGH_JOB=web", "BOROUGH_INDEX=0", "BOROUGH_ATTEMPT=1"}); err != nil {
		t.Errorf("a task without roles and allocs: %v", err)
	}
}

func TestATaskSaysThatItIsReady(t *testing.T) {
	self := Identity{Directory: t.TempDir()}
	file := filepath.Join(self.Directory, "ready")
	if err := self.NotReady(); err != nil {
		t.Error(err)
	}
	if err := self.Ready(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if err := self.NotReady(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is still there")
	}
	// The builder's check looks for the same file.
	spec, err := borough.NewService("web", "serve").CheckReady().Build()
	if err != nil {
		t.Fatal(err)
	}
	command := spec.GetTask().GetHealth().GetCommand().GetCommand()
	if !strings.Contains(command[len(command)-1], "$BOROUGH_TASK_DIR/"+readyFile+`"`) {
		t.Errorf("%q", command)
	}
}

func TestReadinessAnswersAProbe(t *testing.T) {
	var ready Readiness
	probe := func() (int, string) {
		recorder := httptest.NewRecorder()
		ready.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ready", nil))
		return recorder.Code, strings.TrimSpace(recorder.Body.String())
	}
	expect := func(code int, body string) {
		t.Helper()
		if gotCode, gotBody := probe(); gotCode != code || gotBody != body || ready.Ready() != (code == 200) {
			t.Errorf("%d %q", gotCode, gotBody)
		}
	}
	expect(503, "not ready")
	ready.Set()
	expect(200, "ready")
	ready.Unset("the cache is cold")
	expect(503, "not ready: the cache is cold")
	ready.Unset("")
	expect(503, "not ready")
}

func TestATaskKnowsItsPeers(t *testing.T) {
	self, err := read(environment)
	if err != nil {
		t.Fatal(err)
	}
	endpoints := []*pb.Endpoint{{User: "ann", Job: "web", Index: 0}, {User: "ann", Job: "web", Index: 1}, {User: "ann", Job: "web", Index: 2}}
	gateway := fake.New(t)
	gateway.On("ListEndpoints", fake.Unary(func(_ context.Context, request *pb.ListEndpointsRequest) (*pb.ListEndpointsResponse, error) {
		if request.GetUser() != "ann" || request.GetJob() != "web" || request.GetCell() != "alpha" {
			t.Errorf("%v is listed", request)
		}
		return &pb.ListEndpointsResponse{Endpoints: endpoints}, nil
	}))
	gateway.On("WatchEndpoints", fake.Stream(func(ctx context.Context, _ *pb.WatchEndpointsRequest, send func(*pb.WatchEndpointsResponse) error) error {
		cursor := &pb.Cursor{Stamp: []byte{1}}
		for _, endpoint := range endpoints {
			published := &pb.WatchEndpointsResponse_Published{Published: endpoint}
			if err := send(&pb.WatchEndpointsResponse{Event: published, Cursor: cursor, More: true}); err != nil {
				return err
			}
		}
		// Its own endpoint changes, and no peer does.
		own := &pb.Endpoint{User: "ann", Job: "web", Index: 1, Weight: 9}
		last := &pb.Endpoint{User: "ann", Job: "web", Index: 3}
		bookmark := &pb.WatchEndpointsResponse_Bookmark{Bookmark: true}
		if err := send(&pb.WatchEndpointsResponse{Event: bookmark, Cursor: cursor}); err != nil {
			return err
		}
		for number, endpoint := range []*pb.Endpoint{own, last} {
			published := &pb.WatchEndpointsResponse_Published{Published: endpoint}
			at := &pb.Cursor{Stamp: []byte{byte(2 + number)}}
			if err := send(&pb.WatchEndpointsResponse{Event: published, Cursor: at}); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	client, err := borough.New(borough.Config{Gateways: []string{gateway.Address}, User: "other", Cell: "beta"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	expect := func(peers []*borough.Endpoint, err error) {
		t.Helper()
		if err != nil || len(peers) != 2 || peers[0].GetIndex() != 0 || peers[1].GetIndex() != 2 {
			t.Errorf("%v, %v", peers, err)
		}
	}
	expect(self.Peers(t.Context(), client))
	round := 0
	for peers, err := range self.WatchPeers(t.Context(), client) {
		if round++; round == 2 {
			if err != nil || len(peers) != 3 || peers[2].GetIndex() != 3 {
				t.Errorf("%v, %v", peers, err)
			}
			break
		}
		expect(peers, err)
	}
}
