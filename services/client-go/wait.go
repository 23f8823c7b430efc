package borough

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

const (
	progressDeadlineDefault = 10 * time.Minute
	// Rows of a watch between two looks at the progress.
	waitItemsMax = 1024
	// The answer of a wait that ran out does not wait longer for the reasons.
	explainTimeout = 2 * time.Second
	// The healthy state of a task publishes its endpoint in a commit of its own, a moment later.
	endpointInterval = 50 * time.Millisecond
	endpointReads    = 40
)

// WaitOptions says what a wait for a job waits for. The zero value waits as `job run` does.
type WaitOptions struct {
	// Ended waits until the job is over: no task runs any more.
	Ended bool
	// ProgressDeadline ends the wait if no further task of a service becomes healthy for so long. 0: that of the job,
	// which is ten minutes by default.
	ProgressDeadline time.Duration
	// OnProgress gets the state of the job in one line, whenever it changes.
	OnProgress func(state string)
}

// Waited is a job that has reached what was waited for.
type Waited struct {
	Job     *Job
	Outcome Outcome
	// Endpoints are those of a healthy service with ports.
	Endpoints []*Endpoint
}

// WaitError says that a job did not reach what was waited for. The job goes on, unless it is over.
type WaitError struct {
	// Outcome is [OutcomeFailed], [OutcomeStopped] or [OutcomeTimeout].
	Outcome Outcome
	// Why is a line for people.
	Why string
	// Job is its last known state.
	Job *Job
	// Task is the one that fails, as it was then; nil: none does. The output of the attempt in its Exit says more.
	Task *Task
	// Explanations say why tasks have no node, or do not run as they should. Only of a timeout.
	Explanations []*Explanation
}

func (e *WaitError) Error() string {
	lines := []string{e.Why}
	for _, explanation := range e.Explanations {
		lines = append(lines, explanation.GetSummary())
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [context.DeadlineExceeded] and the time of the wait was over.
func (e *WaitError) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Outcome == OutcomeTimeout
}

// RunJob submits a job and waits as `job run` does: until a service is up or its change is rolled out, or until batch
// work is done.
//
// It returns a [WaitError] if the job fails, is stopped, or makes no progress, and if the context ends by its deadline.
func (c *Client) RunJob(
	ctx context.Context, spec *JobSpec, options WaitOptions, changes ...ChangeOption,
) (*Waited, error) {
	submitted, err := c.SubmitJob(ctx, spec, changes...)
	if err != nil {
		return nil, err
	}
	aim := goalOf(submitted.Job)
	return c.wait(ctx, submitted.Ref(), &aim, options)
}

// WaitJob waits for a job as `job run` does, or until it is over. It returns as [Client.RunJob] does.
func (c *Client) WaitJob(ctx context.Context, job JobRef, options WaitOptions) (*Waited, error) {
	return c.wait(ctx, job, nil, options)
}

// wait waits for an aim; nil: what the state of the job gives.
func (c *Client) wait(ctx context.Context, job JobRef, aim *goal, options WaitOptions) (*Waited, error) {
	w := waiting{client: c, job: JobRef{c.owner(job), job.Name}, options: options}
	if aim != nil {
		w.aim, w.aimKnown = *aim, true
	}
	waited, err := w.run(ctx)
	if err == nil {
		err = w.endpoints(ctx, waited)
	}
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) || w.known.job == nil {
		return waited, err
	}
	if w.absent != nil {
		// Nobody knows whether the job is up.
		return nil, fmt.Errorf("%s; the wait ended: %w", w.shown, w.absent)
	}
	return nil, w.timeout(ctx, "the wait ended")
}

// waiting is a wait with what it knows.
type waiting struct {
	client   *Client
	job      JobRef
	options  WaitOptions
	aim      goal
	aimKnown bool
	known    knownJob
	spec     *pb.JobSpec
	timer    progressTimer
	// failing is the task that was last seen to fail.
	failing *pb.Task
	// shown is the state that was last reported.
	shown string
	// absent: no gateway answers.
	absent error
}

// run lists the rows of the job and watches them from there. It lists again if the watch cannot go on.
func (w *waiting) run(ctx context.Context) (*Waited, error) {
	for {
		cursor, err := w.list(ctx)
		if err != nil {
			return nil, err
		}
		waited, err := w.watch(ctx, cursor)
		if waited != nil || err != nil {
			return waited, err
		}
	}
}

func (w *waiting) list(ctx context.Context) (*Cursor, error) {
	answer, err := w.client.GetJob(ctx, w.job)
	if err != nil {
		return nil, err
	}
	if !w.aimKnown {
		w.aim, w.aimKnown = goalOf(answer.GetJob()), true
	}
	w.aim.over = w.options.Ended
	w.spec = answer.GetSpec()
	w.known.job, w.known.tasks = answer.GetJob(), map[uint32]*pb.Task{}
	for task, err := range w.client.Tasks(ctx, TaskFilter{User: w.job.User, Job: w.job.Name}) {
		if err != nil {
			return nil, err
		}
		w.known.taskChanged(task)
	}
	return answer.GetCursor(), nil
}

// watch follows the rows. It returns nothing if they must be listed again.
func (w *waiting) watch(ctx context.Context, cursor *Cursor) (*Waited, error) {
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		item CellItem
		err  error
	}
	items := make(chan result, waitItemsMax)
	go func() {
		defer close(items)
		filter := &WatchFilter{User: w.job.User, Job: w.job.Name, Jobs: true, Tasks: true}
		for item, err := range w.client.WatchCell(ctx, filter, cursor) {
			select {
			case items <- result{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		if waited, err := w.look(); waited != nil || err != nil {
			return waited, err
		}
		left := w.timer.left(&w.known, w.aim, w.progressDeadline(), time.Now())
		if left <= 0 {
			return nil, w.timeout(ctx, "no progress for "+w.progressDeadline().String())
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, w.client.ended(ctx, "WaitJob", begun)
		case <-timer.C:
		case got, more := <-items:
			timer.Stop()
			// What has come meanwhile counts at once: each look reads every task.
			for more {
				if got.err != nil {
					return nil, got.err
				}
				if _, over := got.item.(Resync); over {
					return nil, nil
				}
				w.apply(got.item)
				if len(items) == 0 {
					break
				}
				got, more = <-items
			}
			if !more && ctx.Err() == nil {
				return nil, nil
			}
		}
	}
}

// look decides whether the wait is over, and reports the state of the job.
func (w *waiting) look() (*Waited, error) {
	if text := w.known.text(w.aim); text != w.shown {
		w.shown = text
		if w.options.OnProgress != nil {
			w.options.OnProgress(text)
		}
	}
	reached := w.known.progress(w.aim)
	switch {
	case reached.outcome == "":
		return nil, nil
	case reached.why == "":
		return &Waited{Job: w.known.job, Outcome: reached.outcome}, nil
	default:
		return nil, &WaitError{Outcome: reached.outcome, Why: reached.why, Job: w.known.job, Task: w.failedTask()}
	}
}

// endpoints reads the endpoints of a healthy service, until each task has one.
func (w *waiting) endpoints(ctx context.Context, waited *Waited) error {
	isService := waited.Job.GetKind() == pb.JobKind_JOB_KIND_SERVICE
	if waited.Outcome != OutcomeHealthy || !isService || len(w.spec.GetTask().GetPorts()) == 0 {
		return nil
	}
	for range endpointReads {
		endpoints, err := Collect(w.client.Endpoints(ctx, EndpointFilter{User: w.job.User, Job: w.job.Name}))
		if err != nil {
			return err
		}
		waited.Endpoints = endpoints
		if len(endpoints) >= int(waited.Job.GetCount()) || !sleep(ctx, endpointInterval) {
			break
		}
	}
	return nil
}

func (w *waiting) apply(item CellItem) {
	absent, is := item.(Absent)
	w.absent = nil
	if is {
		w.absent = absent.Err
	}
	change, is := item.(CellChange)
	if !is {
		return
	}
	switch row := change.GetChange().(type) {
	case *pb.WatchResponse_Job:
		actor, user := strings.CutPrefix(change.GetActor(), "user/")
		if !user || actor == w.client.user {
			actor = ""
		}
		w.known.jobChanged(row.Job, actor)
	case *pb.WatchResponse_Task:
		// A later attempt may follow before the next look.
		if w.known.taskChanged(row.Task) && row.Task.GetFailures() > 0 && !isHealthy(row.Task) {
			w.failing = row.Task
		}
	}
}

func (w *waiting) progressDeadline() time.Duration {
	ofJob := time.Duration(w.spec.GetProgressDeadlineMs()) * time.Millisecond
	return cmp.Or(w.options.ProgressDeadline, ofJob, progressDeadlineDefault)
}

// failedTask is a task that fails or, if none does any more, the last one that did.
func (w *waiting) failedTask() *pb.Task {
	return cmp.Or(w.known.failing(), w.failing)
}

// timeout is the error of a wait that ran out. It says what the job was waiting for.
func (w *waiting) timeout(ctx context.Context, why string) *WaitError {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	// Without reasons the error says less.
	explanations, _ := w.client.ExplainJob(ctx, w.job)
	return &WaitError{
		Outcome: OutcomeTimeout, Why: w.shown + "; " + why + "; the job goes on", Job: w.known.job,
		Task: w.failedTask(), Explanations: explanations,
	}
}
