package borough

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// jobModel is a job at a fake gateway. Its rows come from these lists, and its changes from the channel; nil trims.
type jobModel struct {
	job     *pb.Job
	tasks   []*pb.Task
	changes chan *pb.WatchResponse
}

func jobAt(gateway *fake.Gateway, job *pb.Job) *jobModel {
	model := &jobModel{job: job, changes: make(chan *pb.WatchResponse, 16)}
	spec := &pb.JobSpec{Task: &pb.TaskSpec{Ports: []*pb.PortSpec{{Name: "http"}}}}
	gateway.On("SubmitJob", fake.Unary(func(context.Context, *pb.SubmitJobRequest) (*pb.SubmitJobResponse, error) {
		return &pb.SubmitJobResponse{Job: model.job}, nil
	}))
	gateway.On("GetJob", fake.Unary(func(context.Context, *pb.GetJobRequest) (*pb.GetJobResponse, error) {
		return &pb.GetJobResponse{Job: model.job, Cursor: cursor(1), Spec: spec}, nil
	}))
	gateway.On("ListTasks", fake.Unary(func(context.Context, *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
		return &pb.ListTasksResponse{Tasks: model.tasks}, nil
	}))
	gateway.On("ListEndpoints", fake.Unary(func(context.Context, *pb.ListEndpointsRequest) (*pb.ListEndpointsResponse, error) {
		return &pb.ListEndpointsResponse{Endpoints: []*pb.Endpoint{{Name: "0.web.ann.alpha"}}}, nil
	}))
	gateway.On("ExplainTask", fake.Unary(func(context.Context, *pb.ExplainTaskRequest) (*pb.ExplainTaskResponse, error) {
		return &pb.ExplainTaskResponse{Explanations: []*pb.Explanation{{Summary: "fits on none of 2 nodes"}}}, nil
	}))
	gateway.On("Watch", fake.Stream(func(ctx context.Context, _ *pb.WatchRequest, send func(*pb.WatchResponse) error) error {
		for stamp := byte(2); ; stamp++ {
			select {
			case change := <-model.changes:
				if change == nil {
					return status.Error(codes.OutOfRange, "list again")
				}
				change.Cursor = cursor(stamp)
				if err := send(change); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}))
	return model
}

func ofTask(task *pb.Task) *pb.WatchResponse {
	return &pb.WatchResponse{Change: &pb.WatchResponse_Task{Task: task}}
}

func TestAJobIsRunUntilItIsHealthy(t *testing.T) {
	gateway := fake.New(t)
	model := jobAt(gateway, serviceOf(1).job)
	model.changes <- ofTask(taskOf(0, 1, running, unknown))
	model.changes <- ofTask(taskOf(0, 2, running, healthy))
	var states []string
	options := WaitOptions{OnProgress: func(state string) { states = append(states, state) }}
	waited, err := clientOf(t, Config{}, gateway.Address).RunJob(t.Context(), &JobSpec{Name: "web"}, options)
	if err != nil || waited.Outcome != OutcomeHealthy || len(waited.Endpoints) != 1 {
		t.Fatalf("%+v, %v", waited, err)
	}
	if states[0] != "ann/web: 0/1 healthy, 1 pending" || states[len(states)-1] != "ann/web: 1/1 healthy" {
		t.Errorf("%q", states)
	}
}

func TestAWaitListsAgainAfterATrim(t *testing.T) {
	gateway := fake.New(t)
	model := jobAt(gateway, serviceOf(1).job)
	model.tasks = []*pb.Task{taskOf(0, 1, running, unknown)}
	model.changes <- nil
	model.changes <- ofTask(taskOf(0, 2, running, healthy))
	waited, err := clientOf(t, Config{}, gateway.Address).WaitJob(t.Context(), JobRef{Name: "web"}, WaitOptions{})
	if err != nil || waited.Outcome != OutcomeHealthy || gateway.Calls("ListTasks") != 2 {
		t.Errorf("%+v, %v, %d lists", waited, err, gateway.Calls("ListTasks"))
	}
}

func TestAWaitSaysWhoHasStoppedTheJob(t *testing.T) {
	gateway := fake.New(t)
	model := jobAt(gateway, serviceOf(1).job)
	stopped := proto.CloneOf(model.job)
	stopped.Revision, stopped.State = 2, pb.JobState_JOB_STATE_STOPPING
	model.changes <- &pb.WatchResponse{Actor: "user/bob", Change: &pb.WatchResponse_Job{Job: stopped}}
	_, err := clientOf(t, Config{}, gateway.Address).WaitJob(t.Context(), JobRef{Name: "web"}, WaitOptions{})
	var failed *WaitError
	if !errors.As(err, &failed) || failed.Outcome != OutcomeStopped || failed.Why != "ann/web was stopped meanwhile by bob" {
		t.Errorf("%v", err)
	}
}

func TestAWaitThatRunsOutSaysWhy(t *testing.T) {
	t.Parallel()
	gateway := fake.New(t)
	model := jobAt(gateway, serviceOf(1).job)
	model.tasks = []*pb.Task{taskOf(0, 1, waitsFor, unknown)}
	client := clientOf(t, Config{}, gateway.Address)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for _, wait := range []func() error{
		func() error { _, err := client.WaitJob(ctx, JobRef{Name: "web"}, WaitOptions{}); return err },
		func() error {
			options := WaitOptions{ProgressDeadline: time.Second}
			_, err := client.WaitJob(t.Context(), JobRef{Name: "web"}, options)
			return err
		},
	} {
		err := wait()
		var failed *WaitError
		if !errors.As(err, &failed) || failed.Outcome != OutcomeTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
			continue
		}
		if !strings.HasPrefix(err.Error(), "ann/web: 0/1 healthy, 1 pending; ") ||
			!strings.HasSuffix(err.Error(), "; the job goes on\nfits on none of 2 nodes") {
			t.Errorf("%q", err)
		}
	}
}

func TestAWaitThatFailsKnowsTheTaskThatFailed(t *testing.T) {
	gateway := fake.New(t)
	job := serviceOf(1).job
	job.Rollout = &pb.Rollout{Version: 2, State: pb.RolloutState_ROLLOUT_STATE_ROLLING}
	model := jobAt(gateway, job)
	failed := ended(taskOf(0, 1, waitsFor, unknown), 7)
	failed.Failures, failed.Exit.Incarnation = 2, 5
	reverted := proto.CloneOf(job)
	reverted.Revision = 2
	reverted.Rollout = &pb.Rollout{Version: 3, Reverts: 2, Failure: "task 0 failed", State: pb.RolloutState_ROLLOUT_STATE_DONE}
	model.changes <- ofTask(failed)
	model.changes <- ofTask(taskOf(0, 2, running, healthy))
	time.AfterFunc(200*time.Millisecond, func() {
		model.changes <- &pb.WatchResponse{Change: &pb.WatchResponse_Job{Job: reverted}}
	})
	_, err := clientOf(t, Config{}, gateway.Address).RunJob(t.Context(), &JobSpec{Name: "web"}, WaitOptions{})
	var lost *WaitError
	if !errors.As(err, &lost) || lost.Outcome != OutcomeFailed || lost.Why != "ann/web: version 2 was taken back: task 0 failed" {
		t.Fatalf("%v", err)
	}
	if lost.Task.GetExit().GetIncarnation() != 5 {
		t.Errorf("the task is %v", lost.Task)
	}
}

func TestACallerCanCancelAWait(t *testing.T) {
	gateway := fake.New(t)
	jobAt(gateway, serviceOf(1).job)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := clientOf(t, Config{}, gateway.Address).WaitJob(ctx, JobRef{Name: "web"}, WaitOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
