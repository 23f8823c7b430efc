package borough

import (
	"context"
	"iter"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// JobFilter chooses jobs of a list. The zero value chooses every job that has not ended.
type JobFilter struct {
	// User owns the jobs. Empty: every user.
	User string
	// Ended also lists jobs that are over.
	Ended bool
	// States lists only jobs in one of these states, whether they are over or not.
	States []pb.JobState
	// Labels lists only jobs that have all of these.
	Labels map[string]string
	// Selector lists only jobs with labels that meet all of these conditions.
	Selector []*LabelMatch
	// Usage also sums what the tasks of each job are charged for and use.
	Usage bool
	// PageSize is the number of rows that are read at once; 0: as many as the gateway gives.
	PageSize uint32
}

// Submitted is a job that the cell has admitted or changed.
type Submitted struct {
	Job *Job
	// Changed says whether the submission changed the job.
	Changed bool
	// Diff has the fields that it changed.
	Diff []*pb.FieldChange
	// Warnings are reasons why the job waits.
	Warnings []string
	// Cursor is where a watch begins that misses no effect of the submission.
	Cursor *Cursor
}

// Ref names the job.
func (s *Submitted) Ref() JobRef { return JobRef{s.Job.GetUser(), s.Job.GetName()} }

// SubmitJob submits a new job or a changed one. A spec without a user belongs to the user of the client.
//
// A refusal has the fields that are invalid, or says why the change is not possible. With [IfRevision] and [IfJob] it
// is refused if the job has changed.
func (c *Client) SubmitJob(ctx context.Context, spec *JobSpec, options ...ChangeOption) (*Submitted, error) {
	change := changeOf(options)
	request := &pb.SubmitJobRequest{
		Context: c.changing(change), Cell: c.cell, Spec: c.owned(spec),
		ExpectedRevision: change.expectedRevision, ExpectedJob: change.expectedJob,
	}
	answer := new(pb.SubmitJobResponse)
	if err := c.call(ctx, pb.JobService_SubmitJob_FullMethodName, request, answer); err != nil {
		return nil, err
	}
	if answer.GetJob() == nil {
		return nil, incompleteError("SubmitJob", "job")
	}
	return &Submitted{
		answer.GetJob(), answer.GetChanged(), answer.GetDiff(), answer.GetWarnings(), answer.GetCursor(),
	}, nil
}

// owned is a spec with the user of the client, if it has none.
func (c *Client) owned(spec *JobSpec) *JobSpec {
	if spec.GetUser() != "" {
		return spec
	}
	copied := &JobSpec{}
	if spec != nil {
		copied = proto.CloneOf(spec)
	}
	copied.User = c.user
	return copied
}

// PlanJob shows what [Client.SubmitJob] would change, and where the tasks would run.
func (c *Client) PlanJob(ctx context.Context, spec *JobSpec) (*pb.PlanJobResponse, error) {
	request := &pb.PlanJobRequest{Context: c.reading(), Cell: c.cell, Spec: c.owned(spec)}
	answer := new(pb.PlanJobResponse)
	return reply(answer, c.call(ctx, pb.JobService_PlanJob_FullMethodName, request, answer))
}

// ScaleJob changes the number of tasks. It returns when that is committed.
func (c *Client) ScaleJob(ctx context.Context, job JobRef, count uint32, options ...ChangeOption) (*Job, error) {
	change := changeOf(options)
	request := &pb.ScaleJobRequest{
		Context: c.changing(change), Cell: c.cell, User: c.owner(job), Name: job.Name, Count: count,
		ExpectedJob: change.expectedJob,
	}
	answer := new(pb.ScaleJobResponse)
	err := c.call(ctx, pb.JobService_ScaleJob_FullMethodName, request, answer)
	return answer.GetJob(), err
}

// PauseRollout lets the rollout of a job replace no further tasks.
func (c *Client) PauseRollout(ctx context.Context, job JobRef, options ...ChangeOption) (*Job, error) {
	return c.orderRollout(ctx, job, pb.OrderRolloutRequest_PAUSE, 0, options)
}

// ResumeRollout lets a paused rollout go on.
func (c *Client) ResumeRollout(ctx context.Context, job JobRef, options ...ChangeOption) (*Job, error) {
	return c.orderRollout(ctx, job, pb.OrderRolloutRequest_RESUME, 0, options)
}

// PromoteRollout brings the version of healthy canaries to the other tasks.
func (c *Client) PromoteRollout(ctx context.Context, job JobRef, options ...ChangeOption) (*Job, error) {
	return c.orderRollout(ctx, job, pb.OrderRolloutRequest_PROMOTE, 0, options)
}

// UndoRollout goes back to an earlier version, by a rollout. 0: the newest one that differs from the present one.
func (c *Client) UndoRollout(
	ctx context.Context, job JobRef, version uint32, options ...ChangeOption,
) (*Job, error) {
	return c.orderRollout(ctx, job, pb.OrderRolloutRequest_UNDO, version, options)
}

func (c *Client) orderRollout(
	ctx context.Context, job JobRef, order pb.OrderRolloutRequest_Order, version uint32, options []ChangeOption,
) (*Job, error) {
	request := &pb.OrderRolloutRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name,
		Order: order, Version: version,
	}
	answer := new(pb.OrderRolloutResponse)
	err := c.call(ctx, pb.JobService_OrderRollout_FullMethodName, request, answer)
	return answer.GetJob(), err
}

// StopJob stops a job. It returns when the stop is committed, before the tasks have ended.
func (c *Client) StopJob(ctx context.Context, job JobRef, options ...ChangeOption) (*Job, error) {
	change := changeOf(options)
	request := &pb.StopJobRequest{
		Context: c.changing(change), Cell: c.cell, User: c.owner(job), Name: job.Name, ExpectedJob: change.expectedJob,
	}
	answer := new(pb.StopJobResponse)
	err := c.call(ctx, pb.JobService_StopJob_FullMethodName, request, answer)
	return answer.GetJob(), err
}

// PurgeJob forgets every ended job of a name: rows, specs and history. It returns how many there were. A job that has
// not ended is refused with FAILED_PRECONDITION.
func (c *Client) PurgeJob(ctx context.Context, job JobRef, options ...ChangeOption) (uint32, error) {
	request := &pb.PurgeJobRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name,
	}
	answer := new(pb.PurgeJobResponse)
	err := c.call(ctx, pb.JobService_PurgeJob_FullMethodName, request, answer)
	return answer.GetJobs(), err
}

// LabelJob sets and removes labels of a job. No task restarts. A label to remove that is missing is no error.
func (c *Client) LabelJob(
	ctx context.Context, job JobRef, set map[string]string, remove []string, options ...ChangeOption,
) (*Job, error) {
	request := &pb.LabelJobRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name,
		Labels: set, Remove: remove,
	}
	answer := new(pb.LabelJobResponse)
	err := c.call(ctx, pb.JobService_LabelJob_FullMethodName, request, answer)
	return answer.GetJob(), err
}

// GetJob returns a job, its spec, and the cursor from which a watch misses nothing.
func (c *Client) GetJob(ctx context.Context, job JobRef) (*pb.GetJobResponse, error) {
	request := &pb.GetJobRequest{Context: c.reading(), Cell: c.cell, User: c.owner(job), Name: job.Name}
	answer := new(pb.GetJobResponse)
	if err := c.call(ctx, pb.JobService_GetJob_FullMethodName, request, answer); err != nil {
		return nil, err
	}
	if answer.GetJob() == nil {
		return nil, incompleteError("GetJob", "job")
	}
	return answer, nil
}

// Jobs iterates over the jobs of the cell, by user and name. An error is the last item.
func (c *Client) Jobs(ctx context.Context, filter JobFilter) iter.Seq2[*Job, error] {
	return pages(filter.PageSize, func(page *pb.PageRequest) ([]*Job, string, error) {
		request := &pb.ListJobsRequest{
			Context: c.reading(), Cell: c.cell, User: filter.User, Ended: filter.Ended, Page: page,
			Labels: filter.Labels, Selector: filter.Selector, States: filter.States, Usage: filter.Usage,
		}
		answer := new(pb.ListJobsResponse)
		err := c.call(ctx, pb.JobService_ListJobs_FullMethodName, request, answer)
		return answer.GetJobs(), answer.GetNextPage(), err
	})
}

// JobHistory returns every job that had this name, with its versions, newest first.
func (c *Client) JobHistory(ctx context.Context, job JobRef) ([]*JobVersion, error) {
	request := &pb.GetJobHistoryRequest{Context: c.reading(), Cell: c.cell, User: c.owner(job), Name: job.Name}
	answer := new(pb.GetJobHistoryResponse)
	err := c.call(ctx, pb.JobService_GetJobHistory_FullMethodName, request, answer)
	return answer.GetVersions(), err
}

// TaskRef names a task.
type TaskRef struct {
	Job JobRef
	// Index is its number within the job, from 0.
	Index uint32
}

func (task TaskRef) String() string {
	return task.Job.String() + "/" + strconv.FormatUint(uint64(task.Index), 10)
}
