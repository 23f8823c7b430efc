package borough

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Gateways accept so many bytes in one message of a stream.
const streamDataBytes = 32 << 10

// ExecIO connects a command to its caller. The zero value gives it no input and drops its output.
type ExecIO struct {
	// Stdin is read until its end, or until the command has ended. A read that blocks then outlives the command.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal runs the command with a terminal of this size.
	Terminal *WindowSize
	// Resize changes the size of the terminal.
	Resize <-chan WindowSize
}

// WindowSize is the size of a terminal.
type WindowSize struct{ Rows, Columns uint32 }

func (w WindowSize) message() *pb.WindowSize { return &pb.WindowSize{Rows: w.Rows, Columns: w.Columns} }

// ExecExit is how a command has ended: by itself, or by a signal.
type ExecExit struct {
	Code   int
	Signal syscall.Signal
}

// Success reports whether the command ended by itself with 0.
func (e ExecExit) Success() bool { return e == ExecExit{} }

func (e ExecExit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", int(e.Signal))
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Exec runs a command in the environment of a running task, and waits for its end. It is never repeated once a gateway
// may have it, so the command never runs twice. If the context ends, the command is ended. A client of
// [Client.WithDryRun] runs no command.
func (c *Client) Exec(ctx context.Context, task TaskRef, command []string, streams ExecIO) (ExecExit, error) {
	caller, begun := ctx, time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := &pb.ExecOpen{
		Context: c.changing(change{}), Cell: c.cell, User: c.owner(task.Job), Job: task.Job.Name, Index: task.Index,
		Command: command,
	}
	if streams.Terminal != nil {
		open.Terminal = streams.Terminal.message()
	}
	stream, err := c.openExec(ctx, open)
	if err != nil {
		return ExecExit{}, err
	}
	// A gateway that does not take the call is not waited for. Its error comes with the first answer.
	limit := time.AfterFunc(c.config().Deadline, cancel)
	_, _ = stream.Header()
	if !limit.Stop() && caller.Err() == nil {
		return ExecExit{}, c.deadlineError(&tries{method: "Exec", limit: c.config().Deadline})
	}
	go sendInput(ctx, stream, streams)
	exit, err := readExec(stream, streams)
	switch {
	case err == nil:
		return exit, nil
	case caller.Err() != nil:
		return ExecExit{}, c.ended(caller, "Exec", begun)
	default:
		return ExecExit{}, c.execError(err)
	}
}

// openExec opens the stream, on the next gateway if one cannot be reached.
func (c *Client) openExec(ctx context.Context, open *pb.ExecOpen) (pb.TaskService_ExecClient, error) {
	if err := c.checkScope("Exec"); err != nil {
		return nil, err
	}
	if c.dryRun {
		return nil, c.dryRunOfExec()
	}
	made := tries{method: "Exec", begun: time.Now(), limit: c.config().Deadline, gateways: map[int]bool{}}
	for {
		number, _ := c.shared.pool.choose(made.gateways)
		stream, err := pb.NewTaskServiceClient(c.shared.pool.gateways[number].conn).Exec(c.authorized(ctx))
		if err == nil {
			// Its error comes with the first answer.
			_ = stream.Send(&pb.ExecRequest{Message: &pb.ExecRequest_Open{Open: open}})
			return stream, nil
		}
		// Nothing was sent, since there is no stream.
		if ctx.Err() != nil {
			return nil, c.ended(ctx, "Exec", made.begun)
		}
		refused := asRefusal(err)
		if gatewayFailed(refused) {
			c.shared.pool.failed(number)
		}
		pause, err := c.failed(&made, refused)
		if err != nil {
			return nil, err
		}
		if !sleep(ctx, pause) {
			return nil, c.ended(ctx, "Exec", made.begun)
		}
	}
}

// readExec copies the output until the command has ended.
func readExec(stream pb.TaskService_ExecClient, streams ExecIO) (ExecExit, error) {
	for {
		answer, err := stream.Recv()
		if err != nil {
			return ExecExit{}, err
		}
		switch message := answer.GetMessage().(type) {
		case *pb.ExecResponse_Stdout:
			err = writeTo(streams.Stdout, message.Stdout)
		case *pb.ExecResponse_Stderr:
			err = writeTo(streams.Stderr, message.Stderr)
		case *pb.ExecResponse_Exit:
			return ExecExit{int(message.Exit.GetCode()), syscall.Signal(message.Exit.GetSignal())}, nil
		}
		if err != nil {
			return ExecExit{}, &outputError{err}
		}
	}
}

// outputError says that the caller does not take the output of a command.
type outputError struct{ err error }

func (e *outputError) Error() string {
	return "cannot write the output of the command: " + e.err.Error()
}
func (e *outputError) Unwrap() error { return e.err }

func writeTo(writer io.Writer, data []byte) error {
	if writer == nil {
		return nil
	}
	_, err := writer.Write(data)
	return err
}

// execError is the meaning of the error that ended a stream.
func (c *Client) execError(err error) error {
	var output *outputError
	switch {
	case errors.As(err, &output):
		return err
	case isEOF(err):
		return c.unanswered(&tries{method: "Exec", count: 1, sent: true})
	default:
		return c.meaningOnce("Exec", asRefusal(err))
	}
}

// sendInput sends the caller's side: its input until the end, and the sizes of its terminal.
func sendInput(ctx context.Context, stream pb.TaskService_ExecClient, streams ExecIO) {
	input := make(chan []byte)
	if streams.Stdin == nil {
		close(input)
	} else {
		go readInput(ctx, streams.Stdin, input)
	}
	for {
		request := new(pb.ExecRequest)
		select {
		case <-ctx.Done():
			return
		case data, more := <-input:
			request.Message = &pb.ExecRequest_Stdin{Stdin: data}
			if !more {
				request.Message = &pb.ExecRequest_StdinClosed{StdinClosed: true}
				input = nil
			}
		case size, more := <-streams.Resize:
			if !more {
				streams.Resize = nil
				continue
			}
			request.Message = &pb.ExecRequest_Window{Window: size.message()}
		}
		if stream.Send(request) != nil {
			return
		}
	}
}

// readInput reads until the end of the input. It closes the channel then.
func readInput(ctx context.Context, reader io.Reader, input chan<- []byte) {
	defer close(input)
	for {
		data := make([]byte, streamDataBytes)
		count, err := reader.Read(data)
		if count > 0 {
			select {
			case input <- data[:count]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
