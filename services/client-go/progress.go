package borough

import (
	"cmp"
	"fmt"
	"time"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Outcome is what a wait for a job has come to.
type Outcome string

const (
	// OutcomeHealthy: every task of a service is healthy, and a rollout is done or waits for a promotion.
	OutcomeHealthy Outcome = "healthy"
	// OutcomeSucceeded: every task of a batch job ended with 0.
	OutcomeSucceeded Outcome = "succeeded"
	// OutcomeFailed: the job, its rollout or a job that it waits for has failed.
	OutcomeFailed Outcome = "failed"
	// OutcomeStopped: somebody has stopped the job.
	OutcomeStopped Outcome = "stopped"
	// OutcomeTimeout: the time of the wait is over, or no further task becomes healthy. The job goes on.
	OutcomeTimeout Outcome = "timeout"
)

// progress is how far a job is. An empty outcome: it is under way.
type progress struct {
	outcome Outcome
	// why the goal can no longer be reached.
	why string
}

// goal is the aim of a wait: that the job is up, that it is over, or that a version is rolled out.
type goal struct {
	over    bool
	version uint32
}

// knownJob has the rows of a job, as far as known. Pure.
type knownJob struct {
	job   *pb.Job
	tasks map[uint32]*pb.Task
	// stoppedBy is another user, who has stopped the job.
	stoppedBy string
}

// jobChanged replaces an older row.
func (k *knownJob) jobChanged(job *pb.Job, actor string) bool {
	if job.GetId() != k.job.GetId() || job.GetRevision() <= k.job.GetRevision() {
		return false
	}
	k.job = job
	switch job.GetState() {
	case pb.JobState_JOB_STATE_STOPPING, pb.JobState_JOB_STATE_STOPPED:
		k.stoppedBy = cmp.Or(k.stoppedBy, actor)
	}
	return true
}

// taskChanged replaces an older row.
func (k *knownJob) taskChanged(task *pb.Task) bool {
	known := k.tasks[task.GetIndex()]
	if task.GetJobId() != k.job.GetId() || (known != nil && task.GetRevision() <= known.GetRevision()) {
		return false
	}
	k.tasks[task.GetIndex()] = task
	return true
}

// countWithSurge is the count of the job with the tasks that surge beside it.
func (k *knownJob) countWithSurge() uint32 {
	if daemon := k.job.GetDaemon(); daemon != nil {
		return daemon.GetIndexes()
	}
	return k.job.GetCount() + max(k.job.GetSurge(), k.job.GetRollout().GetSurge())
}

// isWanted reports whether the job's owner wants the task.
func (k *knownJob) isWanted(task *pb.Task) bool {
	end := k.job.GetCount()
	if k.job.GetDaemon() != nil {
		end = k.countWithSurge()
	}
	// An index of a daemon job is kept when its node goes, and then no task is wanted there.
	left := task.GetState() == pb.TaskState_TASK_STATE_DEAD && task.GetStop() == pb.StopReason_STOP_REASON_NODE_LEFT
	return task.GetIndex() < end && !left
}

// isHealthy: its agent has seen it run for a while, and its check passes, if it has one.
func isHealthy(task *pb.Task) bool {
	return task.GetState() == pb.TaskState_TASK_STATE_RUNNING && task.GetHealth() == pb.Health_HEALTH_HEALTHY
}

// isDeadForGood: the task will not start again. A task that a shrink stopped starts again when the job grows.
func isDeadForGood(task *pb.Task) bool {
	return task.GetState() == pb.TaskState_TASK_STATE_DEAD &&
		task.GetStop() == pb.StopReason_STOP_REASON_UNSPECIFIED &&
		task.GetExit().GetReason() != pb.EndReason_END_REASON_STOPPED
}

// hasEndedWell: the task of a batch job is done.
func hasEndedWell(task *pb.Task) bool {
	exit := task.GetExit()
	return task.GetState() == pb.TaskState_TASK_STATE_DEAD && exit != nil && exit.Code != nil && exit.GetCode() == 0
}

func (k *knownJob) count(counts func(*pb.Task) bool) int {
	count := 0
	for _, task := range k.tasks {
		if counts(task) {
			count++
		}
	}
	return count
}

func (k *knownJob) healthy() int {
	return k.count(func(task *pb.Task) bool { return k.isWanted(task) && isHealthy(task) })
}

func (k *knownJob) succeeded() int {
	return k.count(func(task *pb.Task) bool { return k.isWanted(task) && hasEndedWell(task) })
}

// surplus counts the tasks that a smaller count no longer wants, and that have not ended. A lost task does not count:
// its node may never report its end.
func (k *knownJob) surplus() int {
	end := k.countWithSurge()
	return k.count(func(task *pb.Task) bool {
		switch task.GetState() {
		case pb.TaskState_TASK_STATE_DEAD, pb.TaskState_TASK_STATE_PENDING, pb.TaskState_TASK_STATE_LOST:
			return false
		}
		return task.GetIndex() >= end
	})
}

// pending counts the tasks that wait for a node. Those that were never placed have no row.
func (k *knownJob) pending() int {
	known := k.count(k.isWanted)
	waiting := k.count(func(task *pb.Task) bool {
		return k.isWanted(task) && task.GetState() == pb.TaskState_TASK_STATE_PENDING
	})
	return max(0, int(k.job.GetCount())-known) + waiting
}

// failing is the task with the most failures in a row that is not healthy; nil: none.
func (k *knownJob) failing() *pb.Task {
	var worst *pb.Task
	for _, task := range k.tasks {
		if !k.isWanted(task) || task.GetFailures() == 0 || isHealthy(task) {
			continue
		}
		if worst == nil || task.GetFailures() > worst.GetFailures() ||
			(task.GetFailures() == worst.GetFailures() && task.GetIndex() < worst.GetIndex()) {
			worst = task
		}
	}
	return worst
}

func (k *knownJob) name() string { return k.job.GetUser() + "/" + k.job.GetName() }

// goalOf is what `job run` waits for: the end of a rollout that is under way, or that the job is up.
func goalOf(job *pb.Job) goal {
	switch rollout := job.GetRollout(); rollout.GetState() {
	case pb.RolloutState_ROLLOUT_STATE_ROLLING, pb.RolloutState_ROLLOUT_STATE_PAUSED:
		if job.GetKind() != pb.JobKind_JOB_KIND_BATCH {
			return goal{version: rollout.GetVersion()}
		}
	}
	return goal{}
}

// progress is how far the job is towards a goal.
func (k *knownJob) progress(goal goal) progress {
	state := k.job.GetState()
	switch state {
	case pb.JobState_JOB_STATE_SUCCEEDED:
		return progress{outcome: OutcomeSucceeded}
	case pb.JobState_JOB_STATE_FAILED:
		return k.lost(goal, OutcomeFailed, k.name()+" failed"+k.worst())
	case pb.JobState_JOB_STATE_DEPENDENCY_FAILED:
		return k.lost(goal, OutcomeFailed, k.name()+" never starts: a job in its `after` failed")
	case pb.JobState_JOB_STATE_STOPPED:
		return k.lost(goal, OutcomeStopped, k.stopped())
	case pb.JobState_JOB_STATE_STOPPING:
		if !goal.over {
			return progress{OutcomeStopped, k.stopped()}
		}
	case pb.JobState_JOB_STATE_RUNNING:
		switch {
		case goal.over:
		case goal.version > 0:
			return k.rolloutProgress(goal.version)
		case k.job.GetKind() != pb.JobKind_JOB_KIND_BATCH:
			return k.serviceProgress()
		}
	}
	return progress{}
}

// lost is an outcome that a wait for the end has reached, and that other waits can no longer reach.
func (k *knownJob) lost(goal goal, outcome Outcome, why string) progress {
	if goal.over {
		why = ""
	}
	return progress{outcome, why}
}

func (k *knownJob) stopped() string {
	text := k.name() + " was stopped meanwhile"
	if k.stoppedBy != "" {
		text += " by " + k.stoppedBy
	}
	return text
}

func (k *knownJob) serviceProgress() progress {
	for _, task := range k.tasks {
		if k.isWanted(task) && isDeadForGood(task) {
			return progress{OutcomeFailed, fmt.Sprintf("task %s/%d is dead%s", k.name(), task.GetIndex(), k.worst())}
		}
	}
	daemon := k.job.GetDaemon()
	// The controller has given a task to every node that it can.
	served := daemon == nil || (daemon.GetLooked() && daemon.GetLeft() == 0)
	if served && k.healthy() >= int(k.job.GetCount()) && k.surplus() == 0 {
		return progress{outcome: OutcomeHealthy}
	}
	return progress{}
}

// rolloutProgress is how far the rollout of a version is. A version that is taken back is lost when the way back is
// done.
func (k *knownJob) rolloutProgress(version uint32) progress {
	rollout := k.job.GetRollout()
	state, why, name := rollout.GetState(), rollout.GetFailure(), k.name()
	over := state != pb.RolloutState_ROLLOUT_STATE_ROLLING && state != pb.RolloutState_ROLLOUT_STATE_PAUSED
	failed := func(format string, values ...any) progress {
		return progress{OutcomeFailed, fmt.Sprintf(format, values...)}
	}
	switch {
	case rollout == nil:
		return progress{outcome: OutcomeHealthy}
	case rollout.GetVersion() == version && state == pb.RolloutState_ROLLOUT_STATE_DONE:
		return k.serviceProgress()
	case rollout.GetVersion() == version && state == pb.RolloutState_ROLLOUT_STATE_FAILED:
		return failed("%s: the rollout of version %d failed: %s", name, version, why)
	case rollout.GetVersion() == version && rollout.GetCanariesHealthyMs() > 0:
		// A person may take any time to look at them.
		return progress{outcome: OutcomeHealthy}
	case rollout.GetVersion() == version, rollout.GetReverts() == version && !over:
		return progress{}
	case rollout.GetReverts() == version && state == pb.RolloutState_ROLLOUT_STATE_FAILED:
		return failed("%s: version %d failed, and so did the way back as version %d: %s", name, version,
			rollout.GetVersion(), why)
	case rollout.GetReverts() == version && why == "":
		return failed("%s: %s took version %d back", name, rollout.GetBy(), version)
	case rollout.GetReverts() == version:
		return failed("%s: version %d was taken back: %s", name, version, why)
	case rollout.GetVersion() > version:
		return failed("%s: version %d by %s superseded version %d", name, rollout.GetVersion(), rollout.GetBy(), version)
	default:
		return progress{}
	}
}

// worst says how the task with the most failures in a row ended; empty: none fails.
func (k *knownJob) worst() string {
	task := k.failing()
	if task == nil {
		return ""
	}
	times := ""
	if task.GetFailures() > 1 {
		times = fmt.Sprintf(", %d times", task.GetFailures())
	}
	return fmt.Sprintf(": task %d ended with %s%s", task.GetIndex(), exitText(task.GetExit()), times)
}

func exitText(exit *pb.Exit) string {
	switch {
	case exit == nil:
		return "no known result"
	case exit.GetReason() == pb.EndReason_END_REASON_OUT_OF_MEMORY:
		return "too much memory"
	case exit.GetReason() == pb.EndReason_END_REASON_START_FAILED:
		return "a failed start: " + exit.GetMessage()
	case exit.Signal != nil:
		return fmt.Sprintf("signal %d", exit.GetSignal())
	case exit.Code != nil:
		return fmt.Sprintf("exit code %d", exit.GetCode())
	default:
		return cmp.Or(exit.GetMessage(), "no known result")
	}
}

// text is the state of the job, in one line.
func (k *knownJob) text(goal goal) string {
	count := k.job.GetCount()
	switch {
	case goal.over:
		left := k.count(func(task *pb.Task) bool {
			return task.GetState() != pb.TaskState_TASK_STATE_DEAD && task.GetState() != pb.TaskState_TASK_STATE_PENDING
		})
		return fmt.Sprintf("%s: %d tasks left", k.name(), left)
	case k.job.GetState() == pb.JobState_JOB_STATE_WAITING:
		return k.name() + ": waits for the jobs in its `after`"
	case k.job.GetKind() == pb.JobKind_JOB_KIND_BATCH:
		return fmt.Sprintf("%s: %d/%d done%s", k.name(), k.succeeded(), count, k.delays())
	case goal.version > 0:
		// A version that is taken back goes on as a later one.
		version := max(goal.version, k.job.GetRollout().GetVersion())
		updated := k.count(func(task *pb.Task) bool {
			return k.isWanted(task) && isHealthy(task) && task.GetSpecVersion() >= version
		})
		return fmt.Sprintf("%s: %d/%d healthy with version %d%s", k.name(), updated, count, version, k.delays())
	default:
		return fmt.Sprintf("%s: %d/%d healthy%s", k.name(), k.healthy(), count, k.delays())
	}
}

func (k *knownJob) delays() string {
	text := ""
	if pending := k.pending(); pending > 0 {
		text += fmt.Sprintf(", %d pending", pending)
	}
	if surplus := k.surplus(); surplus > 0 {
		text += fmt.Sprintf(", %d stopping", surplus)
	}
	if worst := k.worst(); worst != "" {
		text += "," + worst[1:]
	}
	return text
}

// progressTimer measures the time since the last progress of a service. Pure: times are arguments.
type progressTimer struct {
	since time.Time
	// healthy is the most healthy tasks so far, surplus the fewest that a smaller count no longer wants.
	healthy, surplus int
	begun            bool
}

// left is the time until the deadline passes; 0 or less: it has passed. Each further healthy task, and each further end
// of a surplus task, starts it again. It does not run during a rollout, while the job waits for others, nor for batch
// work.
func (t *progressTimer) left(k *knownJob, goal goal, deadline time.Duration, now time.Time) time.Duration {
	healthy, surplus := k.healthy(), k.surplus()
	applies := goal.version == 0 && !goal.over && k.job.GetKind() != pb.JobKind_JOB_KIND_BATCH &&
		k.job.GetState() == pb.JobState_JOB_STATE_RUNNING
	moved := !t.begun || healthy > t.healthy || surplus < t.surplus
	if !applies || moved {
		t.since, t.healthy, t.surplus, t.begun = now, max(t.healthy, healthy), surplus, true
	}
	return deadline - now.Sub(t.since)
}
