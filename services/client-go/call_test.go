package borough

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// clientOf is a client with short pauses. It is closed at the end of the test.
func clientOf(t *testing.T, config Config, gateways ...string) *Client {
	t.Helper()
	config.Gateways, config.User, config.Cell = gateways, "ann", "alpha"
	if config.Retry == (RetryPolicy{}) {
		config.Retry = RetryPolicy{BackoffInitial: time.Millisecond, BackoffMax: 10 * time.Millisecond}
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// submissions are the requests of SubmitJob that a fake got.
type submissions struct {
	mu  sync.Mutex
	ids []string
}

// onSubmit answers the first calls with these errors, and later ones with a job.
func onSubmit(gateway *fake.Gateway, failures ...error) *submissions {
	got := &submissions{}
	gateway.On("SubmitJob", fake.Unary(func(_ context.Context, request *pb.SubmitJobRequest) (*pb.SubmitJobResponse, error) {
		got.mu.Lock()
		defer got.mu.Unlock()
		got.ids = append(got.ids, request.GetContext().GetRequestId())
		if number := len(got.ids); number <= len(failures) {
			return nil, failures[number-1]
		}
		return &pb.SubmitJobResponse{Job: &pb.Job{Id: "j1", User: request.GetSpec().GetUser(), Name: "web"}}, nil
	}))
	return got
}

func (s *submissions) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ids...)
}

var unavailable = status.Error(codes.Unavailable, "down")

// deadAddress is an address at which nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// silentAddress accepts connections and says nothing.
func silentAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String()
}

func TestAChangeIsRepeatedUnderOneRequestID(t *testing.T) {
	gateway := fake.New(t)
	got := onSubmit(gateway, unavailable, unavailable)
	submitted, err := clientOf(t, Config{}, gateway.Address).SubmitJob(t.Context(), &JobSpec{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if submitted.Ref() != (JobRef{"ann", "web"}) {
		t.Errorf("the owner is the user of the client, and not %s", submitted.Ref())
	}
	ids := got.all()
	if len(ids) != 3 || len(ids[0]) != 32 || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("the ids are %v", ids)
	}
}

func TestTwoChangesHaveTwoIDsAndACallerMaySetOne(t *testing.T) {
	gateway := fake.New(t)
	got := onSubmit(gateway)
	client := clientOf(t, Config{}, gateway.Address)
	own := NewRequestID()
	for _, options := range [][]ChangeOption{nil, nil, {WithRequestID(own)}} {
		if _, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"}, options...); err != nil {
			t.Fatal(err)
		}
	}
	if ids := got.all(); ids[0] == ids[1] || ids[2] != own {
		t.Errorf("the ids are %v", ids)
	}
}

func TestARefusalIsNotRepeated(t *testing.T) {
	gateway := fake.New(t)
	got := onSubmit(gateway, statusOf(t, codes.FailedPrecondition, "the job has changed", reasonOf("JOB_CHANGED")).Err())
	_, err := clientOf(t, Config{}, gateway.Address).SubmitJob(t.Context(), &JobSpec{Name: "web"})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != "JOB_CHANGED" || refused.Code != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
	if len(got.all()) != 1 {
		t.Error("it was repeated")
	}
}

func TestAnUnreachableGatewayIsSaidAfterAllTries(t *testing.T) {
	first, second := deadAddress(t), deadAddress(t)
	_, err := clientOf(t, Config{}, first, second).SubmitJob(t.Context(), &JobSpec{Name: "web"})
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || unreachable.Attempts != 6 || unreachable.MayHaveChanged {
		t.Fatalf("%#v", err)
	}
	if !strings.Contains(err.Error(), first+", "+second) {
		t.Error(err)
	}
	if refused := new(RefusedError); errors.As(err, &refused) {
		t.Error("nobody has refused")
	}
	if strings.Contains(err.Error(), "desc = ") || !strings.HasSuffix(err.Error(), "(attempts: 6): dial tcp "+second+": connect: connection refused") {
		t.Error(err)
	}
}

func TestTheNextGatewayIsUsedAndKept(t *testing.T) {
	gateway := fake.New(t)
	got := onSubmit(gateway)
	client := clientOf(t, Config{}, deadAddress(t), gateway.Address)
	for range 3 {
		if _, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"}); err != nil {
			t.Fatal(err)
		}
	}
	if number, _ := client.shared.pool.choose(nil); number != 1 || len(got.all()) != 3 {
		t.Errorf("gateway %d is used, which got %d calls", number, len(got.all()))
	}
}

func TestAGatewayThatFailedIsTakenBackAfterAHealthCheck(t *testing.T) {
	first, second := fake.New(t), fake.New(t)
	onSubmit(first, unavailable)
	onSubmit(second)
	client := clientOf(t, Config{}, first.Address, second.Address)
	if _, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	// The fake has no health service. It answers, and so it works.
	waitFor(t, "the first gateway to be taken back", func() bool {
		client.shared.pool.mu.Lock()
		defer client.shared.pool.mu.Unlock()
		return !client.shared.pool.rotation.away[0]
	})
	if first.Calls("Check") == 0 {
		t.Error("its health was not checked")
	}
	if number, _ := client.shared.pool.choose(nil); number != 1 {
		t.Error("the second one works, and is kept")
	}
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no end of the wait for %s", what)
		}
	}
}

func TestABusyGatewayIsAskedNoSoonerThanItSays(t *testing.T) {
	gateway := fake.New(t)
	const asked = 300 * time.Millisecond
	got := onSubmit(gateway, statusOf(t, codes.ResourceExhausted, "busy", reasonOf(reasonOverloaded), retryIn(asked)).Err())
	begun := time.Now()
	if _, err := clientOf(t, Config{}, gateway.Address).SubmitJob(t.Context(), &JobSpec{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < asked || len(got.all()) != 2 {
		t.Errorf("%d tries in %s", len(got.all()), took)
	}
}

func TestABusyGatewayThatAsksForTooMuchTimeRefuses(t *testing.T) {
	gateway := fake.New(t)
	onSubmit(gateway, statusOf(t, codes.ResourceExhausted, "busy", reasonOf(reasonOverloaded), retryIn(time.Hour)).Err())
	_, err := clientOf(t, Config{}, gateway.Address).SubmitJob(t.Context(), &JobSpec{Name: "web"})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter != time.Hour {
		t.Errorf("%v", err)
	}
}

// mute takes calls and does not answer them.
func mute(t *testing.T) *fake.Gateway {
	gateway := fake.New(t)
	gateway.On("SubmitJob", func(stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	return gateway
}

func TestASilentGatewayCostsOnlyItsShareOfTheTime(t *testing.T) {
	t.Parallel()
	gateway := fake.New(t)
	got := onSubmit(gateway)
	client := clientOf(t, Config{Deadline: 8 * time.Second}, mute(t).Address, gateway.Address)
	if _, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if len(got.all()) != 1 {
		t.Errorf("%d calls", len(got.all()))
	}
}

func TestAGatewayThatWasLeftIsTriedBeforeTheTimeIsOver(t *testing.T) {
	t.Parallel()
	gateway := fake.New(t)
	got := onSubmit(gateway)
	client := clientOf(t, Config{Deadline: 8 * time.Second}, gateway.Address, mute(t).Address)
	// Nobody has seen yet that it works again.
	client.shared.pool.mu.Lock()
	client.shared.pool.rotation.failed(0)
	client.shared.pool.mu.Unlock()
	if _, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"}); err != nil || len(got.all()) != 1 {
		t.Fatal(err)
	}
}

func TestADeadlineSaysWhetherSomethingMayHaveChanged(t *testing.T) {
	client := clientOf(t, Config{Deadline: 200 * time.Millisecond}, silentAddress(t))
	_, change := client.SubmitJob(t.Context(), &JobSpec{Name: "web"})
	_, read := client.GetJob(t.Context(), JobRef{Name: "web"})
	for _, test := range []struct {
		err     error
		changes bool
	}{{change, true}, {read, false}} {
		var deadline *DeadlineError
		if !errors.As(test.err, &deadline) || deadline.MayHaveChanged != test.changes {
			t.Errorf("%#v", test.err)
		}
		if !errors.Is(test.err, context.DeadlineExceeded) {
			t.Error("it does not match context.DeadlineExceeded")
		}
	}
}

func TestAGatewayThatEndsALateCallFirstMakesItNoLessLate(t *testing.T) {
	for _, end := range []error{
		status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL"),
		status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL"),
		status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
	} {
		gateway := fake.New(t)
		gateway.On("GetJob", fake.Unary(func(context.Context, *pb.GetJobRequest) (*pb.GetJobResponse, error) {
			return nil, end
		}))
		slow := RetryPolicy{BackoffInitial: time.Minute, BackoffMax: time.Minute}
		client := clientOf(t, Config{Deadline: 50 * time.Millisecond, Retry: slow}, gateway.Address)
		_, err := client.GetJob(t.Context(), JobRef{Name: "web"})
		var deadline *DeadlineError
		if !errors.As(err, &deadline) {
			t.Errorf("%v: %#v", end, err)
		}
	}
}

func TestACallerCanCancelAndHaveADeadline(t *testing.T) {
	client := clientOf(t, Config{}, silentAddress(t))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := client.GetJob(ctx, JobRef{Name: "web"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := client.GetJob(ctx, JobRef{Name: "web"})
	var deadline *DeadlineError
	if !errors.As(err, &deadline) || deadline.Deadline > 50*time.Millisecond {
		t.Errorf("%v", err)
	}
}

func TestTheTokenIsSentAndNeverShown(t *testing.T) {
	gateway := fake.New(t)
	var sent []string
	gateway.On("GetJob", func(stream grpc.ServerStream) error {
		headers, _ := metadata.FromIncomingContext(stream.Context())
		sent = headers.Get("authorization")
		return statusOf(t, codes.Unauthenticated, "expired", reasonOf("TOKEN_REFUSED")).Err()
	})
	_, err := clientOf(t, Config{Token: " s3cret\n"}, gateway.Address).GetJob(t.Context(), JobRef{Name: "web"})
	var token *TokenError
	if !errors.As(err, &token) || token.Source != "the caller" || strings.Contains(err.Error(), "s3cret") ||
		!strings.HasSuffix(err.Error(), "does not accept the token of the caller: expired") {
		t.Errorf("%v", err)
	}
	if len(sent) != 1 || sent[0] != "Bearer s3cret" {
		t.Errorf("%q was sent", sent)
	}
	_, err = clientOf(t, Config{}, gateway.Address).GetJob(t.Context(), JobRef{Name: "web"})
	if !errors.As(err, &token) || len(sent) != 0 {
		t.Errorf("%v, and %q was sent", err, sent)
	}
}

func TestAConfigurationDoesNotShowItsToken(t *testing.T) {
	config := Config{Token: "s3cret"}
	json, err := json.Marshal(struct{ Token Secret }{config.Token})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", "token", config.Token)
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s", config, config, config, config.Token), string(json), log.String()} {
		if strings.Contains(shown, "s3cret") {
			t.Error(shown)
		}
	}
}

func TestAClosedClientSaysSo(t *testing.T) {
	gateway := fake.New(t)
	client := clientOf(t, Config{}, gateway.Address)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetJob(t.Context(), JobRef{Name: "web"}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := Collect(client.WatchEndpoints(t.Context(), JobRef{Name: "web"}, nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestATokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	source, err := newTokenSource(Config{TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	write("two\n")
	if source.token() != "one" {
		t.Error("the file is read with each call")
	}
	source.read = time.Now().Add(-tokenFileAge)
	if source.token() != "two" {
		t.Error("the file is not read again")
	}
	write("\n")
	source.read = time.Now().Add(-tokenFileAge)
	if source.token() != "two" {
		t.Error("an empty file gives no token")
	}
}

func TestAnotherServerAtTheAddressIsRecognized(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-x\r\n")
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	for _, address := range []string{web.Listener.Addr().String(), listener.Addr().String()} {
		_, err := clientOf(t, Config{}, address).GetJob(t.Context(), JobRef{Name: "web"})
		var other *NotGatewayError
		if !errors.As(err, &other) || other.What != isNoGateway {
			t.Errorf("%v", err)
		}
	}
}

func TestWhatIsWrongWithAConfigurationIsNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config Config
		field  string
	}{
		{Config{}, "Config.Gateways"},
		{Config{Gateways: []string{"h:1", ""}}, "Config.Gateways[1]"},
		{Config{Gateways: []string{"localhost"}}, `"localhost" has no port`},
		{Config{Gateways: []string{":7400"}}, `":7400" has no host`},
		{Config{Gateways: []string{"h:0"}}, `"h:0" has the port "0"`},
		{Config{Gateways: []string{"h:65536"}}, `"h:65536" has the port "65536"`},
		{Config{Gateways: []string{"h:http"}}, `has the port "http"`},
		{Config{Gateways: []string{"h:1/x"}}, `has the path "/x"`},
		{Config{Gateways: []string{"ftp://h:1"}}, `has the scheme "ftp"`},
		{Config{Gateways: []string{"https://h:1"}}, `has the scheme "https", and no TLS`},
		{Config{Gateways: []string{"http://h:1"}, TLS: &TLS{}}, `has the scheme "http", and TLS is set`},
		{Config{Gateways: []string{"h:1"}, TLS: &TLS{Certificate: "x"}}, "Config.TLS.Key"},
		{Config{Gateways: []string{"h:1"}, TLS: &TLS{CA: "/nowhere"}}, "Config.TLS.CA"},
		{Config{Gateways: []string{"h:1"}, TLS: &TLS{CA: empty}}, "Config.TLS.CA"},
		{Config{Gateways: []string{"h:1"}, TLS: &TLS{Certificate: empty, Key: empty}}, "Config.TLS.Certificate"},
		{Config{Gateways: []string{"h:1"}, Token: "a b"}, "Config.Token: has other characters"},
		{Config{Gateways: []string{"h:1"}, TokenFile: empty}, "Config.TokenFile: is empty"},
		{Config{Gateways: []string{"h:1"}, TokenFile: "/nowhere"}, "Config.TokenFile"},
		{Config{Gateways: []string{"h:1"}, TokenFile: empty, Token: "x"}, "Config.TokenFile"},
		{Config{Gateways: []string{"h:1"}, Deadline: -1}, "Config.Deadline"},
	} {
		test.config.User = "ann"
		_, err := New(test.config)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.field) || !strings.Contains(err.Error(), "accepted: ") {
			t.Errorf("%s is not in %v", test.field, err)
		}
	}
	for _, address := range []string{"127.0.0.1:7400", "http://localhost:1/", "[::1]:7400"} {
		if _, err := (Config{Gateways: []string{address}, User: "ann"}).withDefaults(); err != nil {
			t.Error(err)
		}
	}
}

func TestACallWithoutAUserOrACellIsNotSent(t *testing.T) {
	gateway := fake.New(t)
	client := clientOf(t, Config{}, gateway.Address)
	_, err := New(Config{Gateways: []string{gateway.Address}, Cell: "alpha"})
	missing(t, err, "Config.User", "BOROUGH_USER")

	for field, client := range map[string]*Client{"User": client.WithUser(""), "Cell": client.WithCell("")} {
		variable := "BOROUGH_" + strings.ToUpper(field)
		_, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"})
		missing(t, err, field, variable)
		_, err = Collect(client.Jobs(t.Context(), JobFilter{}))
		missing(t, err, field, variable)
		for _, err := range client.WatchEndpoints(t.Context(), JobRef{Name: "web"}, nil) {
			missing(t, err, field, variable)
		}
		for _, err := range client.WatchCell(t.Context(), nil, nil) {
			missing(t, err, field, variable)
		}
		_, err = readAll(t.Context(), client, LogQuery{})
		missing(t, err, field, variable)
		_, err = client.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"true"}, ExecIO{})
		missing(t, err, field, variable)
	}
	for _, method := range []string{"SubmitJob", "ListJobs", "WatchEndpoints", "Watch", "ReadLogs", "Exec"} {
		if sent := gateway.Calls(method); sent != 0 {
			t.Errorf("%s was sent %d times", method, sent)
		}
	}

	gateway.On("ListCells", fake.Unary(func(context.Context, *pb.ListCellsRequest) (*pb.ListCellsResponse, error) {
		return &pb.ListCellsResponse{}, nil
	}))
	if _, err := client.WithCell("").Cells(t.Context()); err != nil {
		t.Errorf("a client without a cell lists the cells: %v", err)
	}
}

// missing fails unless the error is about this field alone, and names the variable that examples read.
func missing(t *testing.T, err error, field, variable string) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Field != field ||
		!strings.Contains(invalid.Fields[0].Accepted, variable) {
		t.Errorf("%v does not refuse %s, or does not name %s", err, field, variable)
	}
}

func TestAnIteratorGoesOverAllPages(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("ListJobs", fake.Unary(func(_ context.Context, request *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
		if request.GetPage().GetLimit() != 2 {
			t.Errorf("the page has %d rows", request.GetPage().GetLimit())
		}
		switch request.GetPage().GetPage() {
		case "":
			return &pb.ListJobsResponse{Jobs: []*pb.Job{{Name: "a"}, {Name: "b"}}, NextPage: "x"}, nil
		case "x":
			// A page may be empty although others follow.
			return &pb.ListJobsResponse{NextPage: "y"}, nil
		default:
			return &pb.ListJobsResponse{Jobs: []*pb.Job{{Name: "c"}}}, nil
		}
	}))
	client := clientOf(t, Config{}, gateway.Address)
	jobs, err := Collect(client.Jobs(t.Context(), JobFilter{PageSize: 2}))
	if err != nil || len(jobs) != 3 || jobs[2].GetName() != "c" {
		t.Errorf("%v, %v", jobs, err)
	}
	for range client.Jobs(t.Context(), JobFilter{PageSize: 2}) {
		break
	}
	if gateway.Calls("ListJobs") != 4 {
		t.Errorf("%d calls: who leaves early reads no further page", gateway.Calls("ListJobs"))
	}
}

func TestAnAnswerOfALaterVersionIsRead(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("GetJob", fake.Unary(func(context.Context, *pb.GetJobRequest) (*pb.GetJobResponse, error) {
		job := &pb.Job{Name: "web", State: 99, Kind: 77}
		// Field 15000, which this version does not know.
		job.ProtoReflect().SetUnknown([]byte{0xc0, 0xa9, 0x07, 0x01})
		return &pb.GetJobResponse{Job: job}, nil
	}))
	answer, err := clientOf(t, Config{}, gateway.Address).GetJob(t.Context(), JobRef{Name: "web"})
	if err != nil || answer.GetJob().GetName() != "web" || answer.GetJob().GetState() != 99 {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestAnAnswerWithoutItsContentIsAnError(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("GetJob", fake.Unary(func(context.Context, *pb.GetJobRequest) (*pb.GetJobResponse, error) {
		return &pb.GetJobResponse{}, nil
	}))
	_, err := clientOf(t, Config{}, gateway.Address).GetJob(t.Context(), JobRef{Name: "web"})
	if err == nil || !strings.Contains(err.Error(), "different versions") {
		t.Errorf("%v", err)
	}
}
