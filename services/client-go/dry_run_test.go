package borough

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// dryRuns are the requests of DryRun that a fake got.
type dryRuns struct {
	mu  sync.Mutex
	all []*pb.DryRunRequest
}

// onDryRun answers the first calls with these errors, and later ones with an effect.
func onDryRun(gateway *fake.Gateway, failures ...error) *dryRuns {
	got := &dryRuns{}
	gateway.On("DryRun", fake.Unary(func(_ context.Context, request *pb.DryRunRequest) (*pb.DryRunResponse, error) {
		got.mu.Lock()
		defer got.mu.Unlock()
		got.all = append(got.all, request)
		if number := len(got.all); number <= len(failures) {
			return nil, failures[number-1]
		}
		effects := []*pb.DryRunEffect{{Subject: "job bob/web", Text: "stopping"}}
		return &pb.DryRunResponse{Changes: true, Effects: effects, EffectsLeftOut: 3}, nil
	}))
	return got
}

func (d *dryRuns) last(t *testing.T) *pb.DryRunRequest {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		t.Fatal("no dry run was asked for")
	}
	return d.all[len(d.all)-1]
}

func TestADryRunAsksWhatAChangeWouldDo(t *testing.T) {
	gateway := fake.New(t)
	got := onDryRun(gateway, unavailable)
	// What is derived from a client of dry runs makes dry runs, too.
	client := clientOf(t, Config{}, gateway.Address).WithDryRun().WithUser("bob").WithCell("beta")
	id := NewRequestID()
	job, err := client.StopJob(t.Context(), JobRef{Name: "web"}, IfJob("j1"), WithRequestID(id))
	var dry *DryRunError
	if !errors.As(err, &dry) {
		t.Fatalf("%v, %v", job, err)
	}
	if dry.Method != "StopJob" || !dry.Changes || dry.EffectsLeftOut != 3 || len(dry.Effects) != 1 ||
		dry.Effects[0].GetSubject() != "job bob/web" || dry.Effects[0].GetText() != "stopping" {
		t.Errorf("%+v", dry)
	}
	if err.Error() != "a dry run of StopJob: nothing has changed" {
		t.Error(err)
	}
	asked, request := got.last(t), new(pb.StopJobRequest)
	if err := proto.Unmarshal(asked.GetRequest(), request); err != nil {
		t.Fatal(err)
	}
	want := &pb.StopJobRequest{
		Context: &pb.RequestContext{User: "bob", RequestId: id}, Cell: "beta", User: "bob", Name: "web", ExpectedJob: "j1",
	}
	if asked.GetMethod() != "JobService/StopJob" || !proto.Equal(request, want) {
		t.Errorf("asked for %s of %v", asked.GetMethod(), request)
	}
	if calls := gateway.Calls("StopJob"); calls != 0 {
		t.Errorf("the change itself was sent %d times", calls)
	}
}

func TestNoChangeOfTheAPIIsMadeInADryRun(t *testing.T) {
	gateway := fake.New(t)
	got := onDryRun(gateway)
	client := clientOf(t, Config{}, gateway.Address).WithDryRun()
	seen := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("borough.v1", func(file protoreflect.FileDescriptor) bool {
		for at := range file.Services().Len() {
			service := file.Services().Get(at)
			for at := range service.Methods().Len() {
				method := service.Methods().Get(at)
				name := string(method.Name())
				if isRead(name) || method.IsStreamingServer() {
					continue
				}
				seen++
				request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
				err := client.call(t.Context(), "/"+string(service.FullName())+"/"+name, request, answer)
				var dry *DryRunError
				if !errors.As(err, &dry) || dry.Method != name || gateway.Calls(name) != 0 {
					t.Errorf("%s: %v", name, err)
				} else if asked := got.last(t).GetMethod(); asked != string(service.Name())+"/"+name {
					t.Errorf("%s: asked for %s", name, asked)
				}
			}
		}
		return true
	})
	if seen < 30 {
		t.Errorf("only %d changes were seen", seen)
	}
}

func TestADryRunIsRefusedAsTheChange(t *testing.T) {
	gateway := fake.New(t)
	onDryRun(gateway, status.Error(codes.NotFound, "no job"))
	client := clientOf(t, Config{}, gateway.Address)
	_, err := client.WithDryRun().ScaleJob(t.Context(), JobRef{Name: "web"}, 3)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != codes.NotFound || refused.Message != "no job" {
		t.Error(err)
	}
	gateway.On("DryRun", fake.Unary(func(ctx context.Context, _ *pb.DryRunRequest) (*pb.DryRunResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.WithDryRun().ScaleJob(ctx, JobRef{Name: "web"}, 3)
	var late *DeadlineError
	if !errors.As(err, &late) || late.MayHaveChanged {
		t.Errorf("a dry run that is late has changed nothing: %v", err)
	}
}

func TestADryRunReadsAndRunsNoCommand(t *testing.T) {
	gateway := fake.New(t)
	got := onSubmit(gateway)
	gateway.On("GetJob", fake.Unary(func(context.Context, *pb.GetJobRequest) (*pb.GetJobResponse, error) {
		return &pb.GetJobResponse{Job: &pb.Job{Name: "web"}}, nil
	}))
	var opens atomic.Int32
	gateway.On("Exec", echo(&opens))
	client := clientOf(t, Config{}, gateway.Address)
	dry := client.WithDryRun()
	if answer, err := dry.GetJob(t.Context(), JobRef{Name: "web"}); err != nil || answer.GetJob().GetName() != "web" {
		t.Errorf("%v, %v", answer, err)
	}
	_, err := dry.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"rm"}, ExecIO{})
	var ended *DryRunError
	if !errors.As(err, &ended) || ended.Method != "Exec" || ended.Changes || gateway.Calls("Exec") != 0 {
		t.Errorf("%v, and %d commands", err, gateway.Calls("Exec"))
	}
	// The client that it comes from makes its changes.
	if _, err := client.SubmitJob(t.Context(), &JobSpec{Name: "web"}); err != nil || len(got.all()) != 1 {
		t.Errorf("%v after %d submissions", err, len(got.all()))
	}
	_ = client.Close()
	if _, err := dry.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"rm"}, ExecIO{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := dry.StopJob(t.Context(), JobRef{Name: "web"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
