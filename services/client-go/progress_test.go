package borough

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

func serviceOf(count uint32) *knownJob {
	return &knownJob{tasks: map[uint32]*pb.Task{}, job: &pb.Job{
		Id: "j1", User: "ann", Name: "web", Count: count, Revision: 1,
		State: pb.JobState_JOB_STATE_RUNNING, Kind: pb.JobKind_JOB_KIND_SERVICE,
	}}
}

const (
	running  = pb.TaskState_TASK_STATE_RUNNING
	dead     = pb.TaskState_TASK_STATE_DEAD
	stopping = pb.TaskState_TASK_STATE_STOPPING
	waitsFor = pb.TaskState_TASK_STATE_PENDING
	healthy  = pb.Health_HEALTH_HEALTHY
	unknown  = pb.Health_HEALTH_UNKNOWN
)

func taskOf(index uint32, revision uint64, state pb.TaskState, health pb.Health) *pb.Task {
	return &pb.Task{JobId: "j1", Index: index, Revision: revision, State: state, Health: health}
}

func ended(task *pb.Task, code int32) *pb.Task {
	task.Exit = &pb.Exit{Reason: pb.EndReason_END_REASON_EXITED, Code: &code}
	return task
}

func expectOutcome(t *testing.T, known *knownJob, aim goal, want Outcome, why string) {
	t.Helper()
	if got := known.progress(aim); got != (progress{want, why}) {
		t.Errorf("%+v and not %q %q", got, want, why)
	}
}

func TestAServiceIsUpWhenEveryTaskIsHealthy(t *testing.T) {
	known := serviceOf(2)
	if got := known.text(goal{}); got != "ann/web: 0/2 healthy, 2 pending" {
		t.Error(got)
	}
	known.taskChanged(taskOf(0, 1, running, healthy))
	known.taskChanged(taskOf(1, 1, running, unknown))
	expectOutcome(t, known, goal{}, "", "")
	known.taskChanged(taskOf(1, 2, running, healthy))
	expectOutcome(t, known, goal{}, OutcomeHealthy, "")
	expectOutcome(t, serviceOf(0), goal{}, OutcomeHealthy, "")
}

func TestOlderRowsAndThoseOfOtherJobsAreNotTaken(t *testing.T) {
	known := serviceOf(1)
	other := taskOf(0, 9, dead, unknown)
	other.JobId = "j2"
	if !known.taskChanged(taskOf(0, 5, running, healthy)) || known.taskChanged(taskOf(0, 4, waitsFor, unknown)) ||
		known.taskChanged(other) || known.jobChanged(&pb.Job{Id: "j2", Revision: 9}, "") ||
		known.jobChanged(&pb.Job{Id: "j1", Revision: 1}, "") {
		t.Error("a row was taken, or not taken")
	}
	expectOutcome(t, known, goal{}, OutcomeHealthy, "")
}

func TestASmallerServiceIsUpWhenTheOtherTasksHaveEnded(t *testing.T) {
	known := serviceOf(1)
	known.taskChanged(taskOf(0, 1, running, healthy))
	known.taskChanged(taskOf(1, 1, stopping, unknown))
	known.taskChanged(taskOf(2, 1, pb.TaskState_TASK_STATE_LOST, unknown))
	expectOutcome(t, known, goal{}, "", "")
	if got := known.text(goal{}); got != "ann/web: 1/1 healthy, 1 stopping" {
		t.Error(got)
	}
	known.taskChanged(taskOf(1, 2, dead, unknown))
	expectOutcome(t, known, goal{}, OutcomeHealthy, "")
}

func TestACrashIsShownAndTheEnd(t *testing.T) {
	known := serviceOf(1)
	failed := ended(taskOf(0, 1, waitsFor, unknown), 3)
	failed.Failures = 4
	known.taskChanged(failed)
	if got := known.text(goal{}); got != "ann/web: 0/1 healthy, 1 pending, task 0 ended with exit code 3, 4 times" {
		t.Error(got)
	}
	over := proto.CloneOf(failed)
	over.State, over.Revision = dead, 2
	known.taskChanged(over)
	expectOutcome(t, known, goal{}, OutcomeFailed, "task ann/web/0 is dead: task 0 ended with exit code 3, 4 times")
}

func TestATaskThatAShrinkStoppedComesBack(t *testing.T) {
	known := serviceOf(1)
	shrunk := taskOf(0, 1, dead, unknown)
	shrunk.Stop, shrunk.Exit = pb.StopReason_STOP_REASON_JOB_SHRUNK, &pb.Exit{Reason: pb.EndReason_END_REASON_STOPPED}
	known.taskChanged(shrunk)
	expectOutcome(t, known, goal{}, "", "")
}

func TestBatchWorkIsDoneWhenItHasSucceeded(t *testing.T) {
	known := serviceOf(3)
	known.job.Kind = pb.JobKind_JOB_KIND_BATCH
	known.taskChanged(ended(taskOf(0, 1, dead, unknown), 0))
	expectOutcome(t, known, goal{}, "", "")
	if got := known.text(goal{}); got != "ann/web: 1/3 done, 2 pending" {
		t.Error(got)
	}
	for _, test := range []struct {
		state   pb.JobState
		outcome Outcome
		why     string
	}{
		{pb.JobState_JOB_STATE_SUCCEEDED, OutcomeSucceeded, ""},
		{pb.JobState_JOB_STATE_FAILED, OutcomeFailed, "ann/web failed"},
		{pb.JobState_JOB_STATE_STOPPED, OutcomeStopped, "ann/web was stopped meanwhile by bob"},
		{pb.JobState_JOB_STATE_DEPENDENCY_FAILED, OutcomeFailed, "ann/web never starts: a job in its `after` failed"},
	} {
		known.job.State, known.stoppedBy = test.state, "bob"
		expectOutcome(t, known, goal{}, test.outcome, test.why)
		expectOutcome(t, known, goal{over: true}, test.outcome, "")
	}
	known.job.State = pb.JobState_JOB_STATE_STOPPING
	expectOutcome(t, known, goal{over: true}, "", "")
	expectOutcome(t, known, goal{}, OutcomeStopped, "ann/web was stopped meanwhile by bob")
	// A state of a later version.
	known.job.State = 99
	expectOutcome(t, known, goal{}, "", "")
}

func TestADaemonIsUpWhenEveryNodeIsServed(t *testing.T) {
	known := serviceOf(1)
	known.job.Kind, known.job.Daemon = pb.JobKind_JOB_KIND_DAEMON, &pb.DaemonStatus{Indexes: 3, Left: 1, Looked: true}
	gone := taskOf(0, 1, dead, unknown)
	gone.Stop = pb.StopReason_STOP_REASON_NODE_LEFT
	known.taskChanged(gone)
	known.taskChanged(taskOf(2, 1, running, healthy))
	expectOutcome(t, known, goal{}, "", "")
	known.job.Daemon.Left = 0
	expectOutcome(t, known, goal{}, OutcomeHealthy, "")
}

func TestARolloutIsWaitedFor(t *testing.T) {
	rollout := func(change func(*pb.Rollout)) *knownJob {
		known := serviceOf(1)
		known.taskChanged(taskOf(0, 1, running, healthy))
		known.job.Rollout = &pb.Rollout{Version: 2, State: pb.RolloutState_ROLLOUT_STATE_ROLLING, By: "user/bob"}
		change(known.job.Rollout)
		return known
	}
	aim := goal{version: 2}
	if got := goalOf(rollout(func(*pb.Rollout) {}).job); got != aim {
		t.Errorf("the goal is %+v", got)
	}
	for _, test := range []struct {
		change  func(*pb.Rollout)
		outcome Outcome
		why     string
	}{
		{func(*pb.Rollout) {}, "", ""},
		{func(r *pb.Rollout) { r.CanariesHealthyMs = 5 }, OutcomeHealthy, ""},
		{func(r *pb.Rollout) { r.State = pb.RolloutState_ROLLOUT_STATE_DONE }, OutcomeHealthy, ""},
		{func(r *pb.Rollout) { r.State, r.Failure = pb.RolloutState_ROLLOUT_STATE_FAILED, "task 0 failed" },
			OutcomeFailed, "ann/web: the rollout of version 2 failed: task 0 failed"},
		{func(r *pb.Rollout) { r.Version, r.Reverts, r.Failure = 3, 2, "task 0 failed" }, "", ""},
		{func(r *pb.Rollout) {
			r.Version, r.Reverts, r.Failure, r.State = 3, 2, "task 0 failed", pb.RolloutState_ROLLOUT_STATE_DONE
		}, OutcomeFailed, "ann/web: version 2 was taken back: task 0 failed"},
		{func(r *pb.Rollout) { r.Version, r.Reverts, r.State = 3, 2, pb.RolloutState_ROLLOUT_STATE_DONE },
			OutcomeFailed, "ann/web: user/bob took version 2 back"},
		{func(r *pb.Rollout) { r.Version = 3 }, OutcomeFailed, "ann/web: version 3 by user/bob superseded version 2"},
	} {
		expectOutcome(t, rollout(test.change), aim, test.outcome, test.why)
	}
}

func TestEachFurtherHealthyTaskStartsTheDeadlineAgainAndACrashDoesNot(t *testing.T) {
	known, timer := serviceOf(3), progressTimer{}
	begin := time.Unix(0, 0)
	expect := func(at, want time.Duration) {
		t.Helper()
		if got := timer.left(known, goal{}, 10*time.Second, begin.Add(at)); got != want {
			t.Errorf("at %s %s are left and not %s", at, got, want)
		}
	}
	expect(0, 10*time.Second)
	expect(9*time.Second, time.Second)
	known.taskChanged(taskOf(0, 1, running, healthy))
	expect(9*time.Second, 10*time.Second)
	// It fails and becomes healthy again: that is no progress.
	known.taskChanged(taskOf(0, 2, waitsFor, unknown))
	expect(12*time.Second, 7*time.Second)
	known.taskChanged(taskOf(0, 3, running, healthy))
	expect(18*time.Second, time.Second)
	expect(19*time.Second, 0)
	known.job.State = pb.JobState_JOB_STATE_WAITING
	expect(90*time.Second, 10*time.Second)
}
