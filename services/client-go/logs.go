package borough

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// An agent that has just lost its connection is mostly back after fewer tries, within some seconds.
const awayReportedAttempts = 8

// LogQuery says which part of a task's output is read. The zero value is all kept output of both streams.
type LogQuery struct {
	// Stream reads only one of stdout and stderr.
	Stream LogStream
	// Follow goes on with new output until the attempt ends.
	Follow bool
	// TailLines begins with so many whole lines from the end; 0: with all kept lines.
	TailLines uint32
	// Since begins with what was written in this time; 0: with all.
	Since time.Duration
	// Incarnation chooses the attempt; 0: the present or last one.
	Incarnation uint64
	// Helper reads the output of this helper instead of that of the command.
	Helper string
	// Times also says when the output was written.
	Times bool
	// OnWait is called once for each wait, with its reason: no gateway answers ([UnreachableError]), or the agent of the
	// task's node does not ([RefusedError]). The read goes on by itself.
	OnWait func(reason error)
}

// LogStream is one of the two outputs of a task.
type LogStream = pb.ReadLogsRequest_Stream

const (
	// Stdout is the standard output.
	Stdout = pb.ReadLogsRequest_STDOUT
	// Stderr is the standard error.
	Stderr = pb.ReadLogsRequest_STDERR
)

// LogPart is a part of the output of a task.
type LogPart struct {
	Stream LogStream
	Data   []byte
	// Incarnation is the attempt that wrote it.
	Incarnation uint64
	// GoneBytes were removed before the data, before this reader had them.
	GoneBytes uint64
	// Times say when the data was written, if the query asks for it.
	Times []*pb.LogTime
}

// TaskLogs reads the output of one attempt of a task. It ends with the kept output or, with Follow, with the attempt.
// Broken connections, gateways that end and agents that move lose no byte and repeat none.
//
// The read ends without an error when the context ends, and when the caller leaves the loop. An error is the last item.
func (c *Client) TaskLogs(ctx context.Context, task TaskRef, query LogQuery) iter.Seq2[LogPart, error] {
	return func(yield func(LogPart, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		reader := logReader{client: c, query: query, place: logResumption{request: c.logRequest(task, query)}}
		for !reader.over {
			part, err := reader.next(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(LogPart{}, err)
				return
			}
			if part != nil && !yield(*part, nil) {
				return
			}
		}
	}
}

func (c *Client) logRequest(task TaskRef, query LogQuery) *pb.ReadLogsRequest {
	request := &pb.ReadLogsRequest{
		Context: c.reading(), Cell: c.cell, User: c.owner(task.Job), Job: task.Job.Name, Index: task.Index,
		Stream: query.Stream, Follow: query.Follow, Times: query.Times, Helper: query.Helper,
	}
	if query.TailLines > 0 {
		request.TailLines = &query.TailLines
	}
	if query.Incarnation > 0 {
		request.Incarnation = &query.Incarnation
	}
	if query.Since > 0 {
		since := uint64(query.Since.Milliseconds())
		request.SinceMs = &since
	}
	return request
}

// logResumption decides where a broken read goes on. Pure.
type logResumption struct {
	// request goes on behind everything that was delivered.
	request *pb.ReadLogsRequest
	// positioned: some answer had a position. Older gateways send none.
	positioned bool
	// lost: an answer without a position was delivered.
	lost bool
}

// delivered records an answer.
func (r *logResumption) delivered(answer *pb.ReadLogsResponse) {
	if incarnation := answer.GetIncarnation(); incarnation > 0 {
		r.request.Incarnation = &incarnation
	}
	next := answer.GetNext()
	switch {
	case next == nil:
		r.lost = r.lost || len(answer.GetData()) > 0
		return
	case answer.GetStream() == Stderr:
		r.request.StderrFrom = next
	default:
		r.request.StdoutFrom = next
	}
	r.positioned = true
}

// logReader reads one attempt over broken connections.
type logReader struct {
	client *Client
	query  LogQuery
	place  logResumption
	source *source[pb.ReadLogsResponse]
	opened bool
	// answered: some answer has come. Before, the read fails as any call does.
	answered bool
	attempts int
	outage   outage
	// waits is the reason of which the caller knows.
	waits string
	over  bool
}

// next waits for the next part. Nil: something else has happened.
func (r *logReader) next(ctx context.Context) (*LogPart, error) {
	if r.source == nil {
		if err := r.client.checkScope("ReadLogs"); err != nil {
			return nil, err
		}
		request := r.place.request
		open := func(ctx context.Context, conn grpc.ClientConnInterface) (answers[pb.ReadLogsResponse], error) {
			return pb.NewTaskServiceClient(conn).ReadLogs(ctx, request)
		}
		r.source = openSource(ctx, r.client, open)
	}
	var timeout <-chan time.Time
	if !r.opened {
		timer := time.NewTimer(r.client.shared.pool.openLimit(r.client.config().Deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout:
		return nil, r.broken(ctx, nil)
	case got := <-r.source.received:
		switch {
		case got.ended && got.refused == nil && !r.place.positioned:
			// An older gateway ends a stream so.
			r.over = true
			return nil, nil
		case got.ended:
			return nil, r.broken(ctx, got.refused)
		case got.message == nil:
			r.opened = true
			return nil, nil
		default:
			return r.part(got.message), nil
		}
	}
}

func (r *logReader) part(answer *pb.ReadLogsResponse) *LogPart {
	r.answered, r.attempts, r.outage, r.waits = true, 0, outage{}, ""
	r.place.delivered(answer)
	r.over = answer.GetEnd()
	if len(answer.GetData()) == 0 && answer.GetGoneBytes() == 0 {
		return nil
	}
	return &LogPart{
		Stream: answer.GetStream(), Data: answer.GetData(), Incarnation: answer.GetIncarnation(),
		GoneBytes: answer.GetGoneBytes(), Times: answer.GetTimes(),
	}
}

// broken prepares the next stream, after a pause. Without a refusal the stream has ended, or did not open in time.
func (r *logReader) broken(ctx context.Context, refused *RefusedError) error {
	number := r.source.number
	r.source.cancel()
	r.source, r.opened = nil, false
	r.attempts++
	away := refused != nil && refused.AgentAway()
	if refused != nil {
		waits := r.query.Follow && away
		if r.place.lost || (verdictOf(refused) == verdictFinal && !waits) {
			return r.client.meaningOnce("ReadLogs", refused)
		}
	}
	var err error
	switch {
	case away:
		// A gateway that says so answers.
		r.outage = outage{}
		err = r.agentAway(refused)
	default:
		r.client.shared.pool.failed(number)
		r.outage.begin(time.Now())
		err = r.gatewayAway(refused)
	}
	if err != nil {
		return err
	}
	pause := r.client.config().Retry.pause(r.attempts, rand.Float64())
	if refused != nil {
		pause = max(pause, refused.RetryAfter)
	}
	sleep(ctx, pause)
	return nil
}

func (r *logReader) agentAway(refused *RefusedError) error {
	if !r.query.Follow && r.attempts >= r.client.config().Retry.AttemptsMax {
		return refused
	}
	if refused.nodeSilent() || r.attempts >= awayReportedAttempts {
		r.report(refused.Reason, refused)
	}
	return nil
}

func (r *logReader) gatewayAway(refused *RefusedError) error {
	config, now := r.client.config(), time.Now()
	unreachable := r.client.unanswered(&tries{method: "ReadLogs", count: r.attempts, last: refused})
	late := r.attempts >= config.Retry.AttemptsMax || now.Sub(r.outage.since) >= config.Deadline
	if late && !(r.answered && r.query.Follow) {
		return unreachable
	}
	switch r.outage.step(now, config.WatchPatience) {
	case outageGiveUp:
		return unreachable
	case outageReport:
		r.report("gateway", unreachable)
	}
	return nil
}

// report passes on a wait, unless the caller knows of it.
func (r *logReader) report(kind string, reason error) {
	if r.waits != kind && r.query.OnWait != nil {
		r.query.OnWait(reason)
	}
	r.waits = kind
}
