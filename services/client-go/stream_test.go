package borough

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

// onReadLogs sends a text in parts of two bytes. Each stream breaks after three of them, with these errors first.
func onReadLogs(gateway *fake.Gateway, text string, failures ...error) {
	var calls atomic.Int32
	gateway.On("ReadLogs", fake.Stream(func(_ context.Context, request *pb.ReadLogsRequest, send func(*pb.ReadLogsResponse) error) error {
		if call := int(calls.Add(1)); call <= len(failures) {
			return failures[call-1]
		}
		for number, answer := range logOf(map[LogStream]string{Stdout: text}, 1000, request) {
			if number > 3 {
				return errBreak
			}
			if err := send(answer); err != nil {
				return err
			}
		}
		return nil
	}))
}

func readAll(ctx context.Context, client *Client, query LogQuery) (string, error) {
	var text strings.Builder
	for part, err := range client.TaskLogs(ctx, JobRef{Name: "web"}.Task(0), query) {
		if err != nil {
			return text.String(), err
		}
		text.Write(part.Data)
	}
	return text.String(), nil
}

func TestLogsAreReadOverBrokenStreams(t *testing.T) {
	const text = "the quick brown fox jumps over the lazy dog"
	first, second := fake.New(t), fake.New(t)
	onReadLogs(first, text, errBreak)
	onReadLogs(second, text)
	got, err := readAll(t.Context(), clientOf(t, Config{}, first.Address, second.Address), LogQuery{})
	if err != nil || got != text {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAFollowerOfLogsWaitsForAnAgentAndSaysSoOnce(t *testing.T) {
	silent := statusOf(t, codes.Unavailable, "n1 is silent", reasonOf(reasonNodeSilent)).Err()
	gateway := fake.New(t)
	onReadLogs(gateway, "abcd", silent, silent, silent)
	var waits []error
	query := LogQuery{Follow: true, OnWait: func(reason error) { waits = append(waits, reason) }}
	client := clientOf(t, Config{}, gateway.Address)
	got, err := readAll(t.Context(), client, query)
	if err != nil || got != "abcd" {
		t.Errorf("%q, %v", got, err)
	}
	var refused *RefusedError
	if len(waits) != 1 || !errors.As(waits[0], &refused) || !refused.AgentAway() {
		t.Errorf("the waits are %v", waits)
	}
	// Without Follow nobody waits for it.
	onReadLogs(gateway, "abcd", silent)
	if _, err := readAll(t.Context(), client, LogQuery{}); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}

func TestLogsWithoutAGatewayEndAsACallDoes(t *testing.T) {
	_, err := readAll(t.Context(), clientOf(t, Config{}, deadAddress(t)), LogQuery{Follow: true})
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || unreachable.Attempts != 6 {
		t.Errorf("%v", err)
	}
}

func TestLogsEndCleanlyWithTheContext(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("ReadLogs", fake.Stream(func(ctx context.Context, _ *pb.ReadLogsRequest, _ func(*pb.ReadLogsResponse) error) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := readAll(ctx, clientOf(t, Config{}, gateway.Address), LogQuery{Follow: true}); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// echo is an agent that runs a command: it sends the input back, and ends with 7.
func echo(opens *atomic.Int32) fake.Handler {
	return func(stream grpc.ServerStream) error {
		sends := func(answer *pb.ExecResponse) error { return stream.SendMsg(answer) }
		for {
			request := new(pb.ExecRequest)
			if err := stream.RecvMsg(request); err != nil {
				return err
			}
			switch message := request.GetMessage().(type) {
			case *pb.ExecRequest_Open:
				opens.Add(1)
				if err := sends(&pb.ExecResponse{Message: &pb.ExecResponse_Stderr{Stderr: []byte(strings.Join(message.Open.GetCommand(), " "))}}); err != nil {
					return err
				}
			case *pb.ExecRequest_Stdin:
				if err := sends(&pb.ExecResponse{Message: &pb.ExecResponse_Stdout{Stdout: message.Stdin}}); err != nil {
					return err
				}
			case *pb.ExecRequest_StdinClosed:
				code := int32(7)
				return sends(&pb.ExecResponse{Message: &pb.ExecResponse_Exit{Exit: &pb.ExecExit{Code: &code}}})
			}
		}
	}
}

func TestACommandHasItsInputAndOutput(t *testing.T) {
	gateway := fake.New(t)
	var opens atomic.Int32
	gateway.On("Exec", echo(&opens))
	client := clientOf(t, Config{}, deadAddress(t), gateway.Address)
	input := strings.Repeat("0123456789", 10_000)
	var output, errorOutput bytes.Buffer
	exit, err := client.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"cat", "-"}, ExecIO{
		Stdin: strings.NewReader(input), Stdout: &output, Stderr: &errorOutput,
	})
	if err != nil || exit != (ExecExit{Code: 7}) || exit.Success() || exit.String() != "exit code 7" {
		t.Errorf("%v, %v", exit, err)
	}
	if output.String() != input || errorOutput.String() != "cat -" {
		t.Errorf("%d bytes and %q", output.Len(), errorOutput.String())
	}
	if exit, err := client.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"true"}, ExecIO{}); err != nil || exit.Code != 7 {
		t.Errorf("without input and output: %v, %v", exit, err)
	}
}

func TestACommandIsNeverRunTwice(t *testing.T) {
	first, second := fake.New(t), fake.New(t)
	var opens atomic.Int32
	breaks := func(stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(pb.ExecRequest)); err != nil {
			return err
		}
		opens.Add(1)
		return errBreak
	}
	first.On("Exec", breaks)
	second.On("Exec", breaks)
	client := clientOf(t, Config{}, first.Address, second.Address)
	_, err := client.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"rm"}, ExecIO{})
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !unreachable.MayHaveChanged || opens.Load() != 1 {
		t.Errorf("%#v after %d commands", err, opens.Load())
	}
}

func TestOutputThatCannotBeWrittenEndsACommand(t *testing.T) {
	gateway := fake.New(t)
	var opens atomic.Int32
	gateway.On("Exec", echo(&opens))
	full := errors.New("the disk is full")
	_, err := clientOf(t, Config{}, gateway.Address).Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"x"},
		ExecIO{Stderr: failingWriter{full}})
	if !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestACallerCanEndACommand(t *testing.T) {
	gateway := fake.New(t)
	gateway.On("Exec", func(stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	client := clientOf(t, Config{}, gateway.Address)
	if _, err := client.Exec(ctx, JobRef{Name: "web"}.Task(0), []string{"x"}, ExecIO{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	client = clientOf(t, Config{Deadline: 100 * time.Millisecond}, gateway.Address)
	_, err := client.Exec(t.Context(), JobRef{Name: "web"}.Task(0), []string{"x"}, ExecIO{})
	var deadline *DeadlineError
	if !errors.As(err, &deadline) || !deadline.MayHaveChanged {
		t.Errorf("%v", err)
	}
}
