package borough

import (
	"context"
	"iter"
	"syscall"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// TaskFilter chooses tasks of a list. The zero value chooses those of every job that has not ended.
type TaskFilter struct {
	// User owns the jobs. Empty: every user; with Job, the user of the client.
	User string
	// Job lists only the tasks of this job.
	Job string
	// Node lists only the tasks on this node, of every user and job.
	Node string
	// Index, with Job, lists only this task.
	Index *uint32
	// States and Conditions list only tasks in one of these. Without both: in any.
	States     []pb.TaskState
	Conditions []pb.TaskCondition
	// Selector lists only tasks of jobs with labels that meet all of these conditions.
	Selector []*LabelMatch
	// Ended, without Job and Node, also lists tasks of jobs that are over.
	Ended bool
	// Wanted leaves out tasks beyond the count of their job that have ended.
	Wanted bool
	// PageSize is the number of rows that are read at once; 0: as many as the gateway gives.
	PageSize uint32
}

// Tasks iterates over tasks, by the ids of their jobs and their indexes. An error is the last item.
func (c *Client) Tasks(ctx context.Context, filter TaskFilter) iter.Seq2[*Task, error] {
	if filter.Job != "" && filter.User == "" {
		filter.User = c.user
	}
	return pages(filter.PageSize, func(page *pb.PageRequest) ([]*Task, string, error) {
		request := &pb.ListTasksRequest{
			Context: c.reading(), Cell: c.cell, User: filter.User, Job: filter.Job, Node: filter.Node, Page: page,
			States: filter.States, Conditions: filter.Conditions, Selector: filter.Selector, Ended: filter.Ended,
			Index: filter.Index, Wanted: filter.Wanted,
		}
		answer := new(pb.ListTasksResponse)
		err := c.call(ctx, pb.TaskService_ListTasks_FullMethodName, request, answer)
		return answer.GetTasks(), answer.GetNextPage(), err
	})
}

// ExplainJob explains why tasks of a job are not placed, or do not run as they should.
func (c *Client) ExplainJob(ctx context.Context, job JobRef) ([]*Explanation, error) {
	return c.explain(ctx, &pb.ExplainTaskRequest{User: c.owner(job), Job: job.Name})
}

// ExplainTask explains it for one task.
func (c *Client) ExplainTask(ctx context.Context, task TaskRef) ([]*Explanation, error) {
	return c.explain(ctx, &pb.ExplainTaskRequest{User: c.owner(task.Job), Job: task.Job.Name, Index: &task.Index})
}

// ExplainTaskElsewhere explains why a task with a node has no room on another one.
func (c *Client) ExplainTaskElsewhere(ctx context.Context, task TaskRef) ([]*Explanation, error) {
	return c.explain(ctx, &pb.ExplainTaskRequest{
		User: c.owner(task.Job), Job: task.Job.Name, Index: &task.Index, Elsewhere: true,
	})
}

func (c *Client) explain(ctx context.Context, request *pb.ExplainTaskRequest) ([]*Explanation, error) {
	request.Context, request.Cell = c.reading(), c.cell
	answer := new(pb.ExplainTaskResponse)
	err := c.call(ctx, pb.TaskService_ExplainTask_FullMethodName, request, answer)
	return answer.GetExplanations(), err
}

// SignalTask sends a signal to the process of a running task.
func (c *Client) SignalTask(ctx context.Context, task TaskRef, signal syscall.Signal, options ...ChangeOption) error {
	request := &pb.SignalTaskRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(task.Job), Job: task.Job.Name,
		Index: task.Index, Signal: int32(signal),
	}
	return c.call(ctx, pb.TaskService_SignalTask_FullMethodName, request, new(pb.SignalTaskResponse))
}

// RestartTask ends the attempt of a task and starts the next. It returns when the end is committed, with the
// incarnation of the attempt that ends.
func (c *Client) RestartTask(ctx context.Context, task TaskRef, options ...ChangeOption) (uint64, error) {
	request := &pb.RestartTaskRequest{
		Context: c.changing(changeOf(options)), Cell: c.cell, User: c.owner(task.Job), Job: task.Job.Name,
		Index: task.Index,
	}
	answer := new(pb.RestartTaskResponse)
	err := c.call(ctx, pb.TaskService_RestartTask_FullMethodName, request, answer)
	return answer.GetIncarnation(), err
}

// StopTask ends the attempt of a task and starts the next, preferably on another node. It returns when the end is
// committed, with the incarnation of the attempt that ends.
func (c *Client) StopTask(ctx context.Context, task TaskRef, options ...ChangeOption) (uint64, error) {
	change := changeOf(options)
	request := &pb.StopTaskRequest{
		Context: c.changing(change), Cell: c.cell, User: c.owner(task.Job), Job: task.Job.Name, Index: task.Index,
		ExpectedJob: change.expectedJob, ExpectedIncarnation: change.expectedIncarnation,
	}
	answer := new(pb.StopTaskResponse)
	err := c.call(ctx, pb.TaskService_StopTask_FullMethodName, request, answer)
	return answer.GetIncarnation(), err
}
