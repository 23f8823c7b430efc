package borough

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// The gateway waits up to 12 seconds for a federation process.
const planDeadline = 30 * time.Second

// FederatedFilter chooses federated jobs of a list. The zero value chooses every job that is not stopped.
type FederatedFilter struct {
	// User owns the jobs. Empty: every user.
	User string
	// Stopped also lists jobs that are stopped.
	Stopped bool
	// Member lists only jobs with tasks in this member cell, each with its part there.
	Member string
	// PageSize is the number of rows that are read at once; 0: as many as the gateway gives.
	PageSize uint32
}

// RunFederatedJob adds a federated job, or changes the one that has the name. The same again changes nothing. The cell
// of the client is the home of the federation.
//
// A federation process carries out what is asked for. So the answer says what is wanted, and [Client.GetFederatedJob]
// what has become of it. With [IfRevision] the call is refused if the job has changed.
func (c *Client) RunFederatedJob(
	ctx context.Context, file JobFile, options ...ChangeOption,
) (*pb.RunFederatedJobResponse, error) {
	job, text, err := file.read(c.user)
	if err != nil {
		return nil, err
	}
	change := changeOf(options)
	request := &pb.RunFederatedJobRequest{
		Context: c.changing(change), Cell: c.cell, User: job.User, Name: job.Name, JobFile: text,
		ExpectedRevision: change.expectedRevision,
	}
	answer := new(pb.RunFederatedJobResponse)
	if err := c.call(ctx, pb.FederatedService_RunFederatedJob_FullMethodName, request, answer); err != nil {
		return nil, err
	}
	if answer.GetJob() == nil {
		return nil, incompleteError("RunFederatedJob", "job")
	}
	return answer, nil
}

// PlanFederatedJob shows what would become of a job if [Client.RunFederatedJob] ran it now. Nothing is changed.
//
// A federation process asks the cells for that. If none answers within 12 seconds, the call is refused with the reason
// FEDERATION_SILENT.
func (c *Client) PlanFederatedJob(ctx context.Context, file JobFile) (*pb.PlanFederatedJobResponse, error) {
	job, text, err := file.read(c.user)
	if err != nil {
		return nil, err
	}
	request := &pb.PlanFederatedJobRequest{
		Context: c.reading(), Cell: c.cell, User: job.User, Name: job.Name, JobFile: text,
	}
	answer := new(pb.PlanFederatedJobResponse)
	method := pb.FederatedService_PlanFederatedJob_FullMethodName
	return reply(answer, c.callWithin(ctx, max(planDeadline, c.config().Deadline), method, request, answer))
}

// PlanFederatedRebalance shows what would become of a job if [Client.RebalanceFederatedJob] rebalanced it now. Nothing
// is changed.
func (c *Client) PlanFederatedRebalance(
	ctx context.Context, job JobRef, which pb.RebalancedTasks,
) (*pb.PlanFederatedJobResponse, error) {
	request := &pb.PlanFederatedJobRequest{
		Context: c.reading(), Cell: c.cell, User: c.owner(job), Name: job.Name, Rebalance: which,
	}
	answer := new(pb.PlanFederatedJobResponse)
	method := pb.FederatedService_PlanFederatedJob_FullMethodName
	return reply(answer, c.callWithin(ctx, max(planDeadline, c.config().Deadline), method, request, answer))
}

// FederatedJobs iterates over the federated jobs, by user and name, without their parts. An error is the last item.
func (c *Client) FederatedJobs(ctx context.Context, filter FederatedFilter) iter.Seq2[*FederatedJob, error] {
	return pages(filter.PageSize, func(page *pb.PageRequest) ([]*FederatedJob, string, error) {
		request := &pb.ListFederatedJobsRequest{
			Context: c.reading(), Cell: c.cell, User: filter.User, Stopped: filter.Stopped, Member: filter.Member,
			Page: page,
		}
		answer := new(pb.ListFederatedJobsResponse)
		err := c.call(ctx, pb.FederatedService_ListFederatedJobs_FullMethodName, request, answer)
		return answer.GetJobs(), answer.GetNextPage(), err
	})
}

// GetFederatedJob returns a federated job with its parts, and its job file for [ParseJobFile].
func (c *Client) GetFederatedJob(ctx context.Context, job JobRef) (*pb.GetFederatedJobResponse, error) {
	request := &pb.GetFederatedJobRequest{Context: c.reading(), Cell: c.cell, User: c.owner(job), Name: job.Name}
	answer := new(pb.GetFederatedJobResponse)
	if err := c.call(ctx, pb.FederatedService_GetFederatedJob_FullMethodName, request, answer); err != nil {
		return nil, err
	}
	if answer.GetJob() == nil {
		return nil, incompleteError("GetFederatedJob", "job")
	}
	return answer, nil
}

// federatedAnswer is an answer with the federated job that a call changed.
type federatedAnswer interface {
	proto.Message
	GetJob() *FederatedJob
}

func (c *Client) federated(
	ctx context.Context, method string, request proto.Message, answer federatedAnswer,
) (*FederatedJob, error) {
	err := c.call(ctx, method, request, answer)
	if err == nil && answer.GetJob() == nil {
		err = incompleteError(method, "job")
	}
	return answer.GetJob(), err
}

// ScaleFederatedJob changes the number of tasks in all cells together. It returns when that is committed.
func (c *Client) ScaleFederatedJob(
	ctx context.Context, job JobRef, count uint32, options ...ChangeOption,
) (*FederatedJob, error) {
	request := &pb.ScaleFederatedJobRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name, Count: count,
	}
	method := pb.FederatedService_ScaleFederatedJob_FullMethodName
	return c.federated(ctx, method, request, new(pb.ScaleFederatedJobResponse))
}

// RebalanceFederatedJob has tasks of a job divided among the cells again, although nothing has changed: all of them, or
// those that do not run and have no room in their cell. With [IfRevision] the call is refused if the job has changed.
func (c *Client) RebalanceFederatedJob(
	ctx context.Context, job JobRef, which pb.RebalancedTasks, options ...ChangeOption,
) (*FederatedJob, error) {
	change := changeOf(options)
	request := &pb.RebalanceFederatedJobRequest{
		Context: c.changing(change), Cell: c.cell, User: c.owner(job), Name: job.Name, Which: which,
		ExpectedRevision: change.expectedRevision,
	}
	method := pb.FederatedService_RebalanceFederatedJob_FullMethodName
	return c.federated(ctx, method, request, new(pb.RebalanceFederatedJobResponse))
}

// StopFederatedJob stops the parts in all cells. A cell that is silent stops its part when it is back.
func (c *Client) StopFederatedJob(ctx context.Context, job JobRef, options ...ChangeOption) (*FederatedJob, error) {
	request := &pb.StopFederatedJobRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name,
	}
	method := pb.FederatedService_StopFederatedJob_FullMethodName
	return c.federated(ctx, method, request, new(pb.StopFederatedJobResponse))
}

// PauseFederatedRelease lets no further cell get the newest version of a job.
func (c *Client) PauseFederatedRelease(
	ctx context.Context, job JobRef, options ...ChangeOption,
) (*FederatedJob, error) {
	return c.orderRelease(ctx, job, pb.OrderFederatedReleaseRequest_PAUSE, 0, options)
}

// ResumeFederatedRelease lets a paused release go on.
func (c *Client) ResumeFederatedRelease(
	ctx context.Context, job JobRef, options ...ChangeOption,
) (*FederatedJob, error) {
	return c.orderRelease(ctx, job, pb.OrderFederatedReleaseRequest_RESUME, 0, options)
}

// ApproveFederatedRelease lets the stage after this one begin. The stage is the one that is under way, from 0, as the
// release of the job says.
func (c *Client) ApproveFederatedRelease(
	ctx context.Context, job JobRef, stage uint32, options ...ChangeOption,
) (*FederatedJob, error) {
	return c.orderRelease(ctx, job, pb.OrderFederatedReleaseRequest_APPROVE, stage, options)
}

// UndoFederatedRelease lets all cells go back to the last proven version.
func (c *Client) UndoFederatedRelease(
	ctx context.Context, job JobRef, options ...ChangeOption,
) (*FederatedJob, error) {
	return c.orderRelease(ctx, job, pb.OrderFederatedReleaseRequest_REVERT, 0, options)
}

func (c *Client) orderRelease(
	ctx context.Context, job JobRef, order pb.OrderFederatedReleaseRequest_Order, stage uint32, options []ChangeOption,
) (*FederatedJob, error) {
	request := &pb.OrderFederatedReleaseRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name,
		Order: order, Stage: stage,
	}
	method := pb.FederatedService_OrderFederatedRelease_FullMethodName
	return c.federated(ctx, method, request, new(pb.OrderFederatedReleaseResponse))
}

// ForgetFederatedJob forgets a federated job. Its parts go on in their cells as jobs of their own. It returns the job as
// it was; nil if an earlier call with this request id has forgotten it.
func (c *Client) ForgetFederatedJob(ctx context.Context, job JobRef, options ...ChangeOption) (*FederatedJob, error) {
	request := &pb.ForgetFederatedJobRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(job), Name: job.Name,
	}
	answer := new(pb.ForgetFederatedJobResponse)
	err := c.call(ctx, pb.FederatedService_ForgetFederatedJob_FullMethodName, request, answer)
	return answer.GetJob(), err
}

// FederatedJobHistory returns the versions of a federated job that are kept, newest first; at most 20.
func (c *Client) FederatedJobHistory(ctx context.Context, job JobRef) ([]*FederatedJobVersion, error) {
	request := &pb.GetFederatedJobHistoryRequest{
		Context: c.reading(), Cell: c.cell, User: c.owner(job), Name: job.Name,
	}
	answer := new(pb.GetFederatedJobHistoryResponse)
	err := c.call(ctx, pb.FederatedService_GetFederatedJobHistory_FullMethodName, request, answer)
	return answer.GetVersions(), err
}
