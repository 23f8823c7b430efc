package borough

import (
	"context"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// DryRunError ends each change of a client of [Client.WithDryRun]: a gateway has checked the change, and nothing has
// changed. Somebody else may have changed the cell by the time that the change is made.
type DryRunError struct {
	// Method of the change, such as StopJob. Of Exec no gateway is asked, so the other fields are empty.
	Method string
	// Changes says whether anything would change.
	Changes bool
	// Effects are what would happen to each object: at most 1,000 of them.
	Effects []*DryRunEffect
	// EffectsLeftOut counts further objects.
	EffectsLeftOut int
}

func (e *DryRunError) Error() string { return "a dry run of " + e.Method + ": nothing has changed" }

// dryRunOf asks what a change would do. It always returns an error: the answer, or the failure of asking.
func (c *Client) dryRunOf(ctx context.Context, limit time.Duration, method string, request proto.Message) error {
	encoded, err := proto.Marshal(request)
	if err != nil {
		// As grpc refuses it for the change itself.
		return asRefusal(status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err))
	}
	// Without the package: JobService/StopJob.
	asked := &pb.DryRunRequest{Method: method[strings.LastIndexByte(method, '.')+1:], Request: encoded}
	answer := new(pb.DryRunResponse)
	if err := c.callWithin(ctx, limit, pb.DryRunService_DryRun_FullMethodName, asked, answer); err != nil {
		return err
	}
	return &DryRunError{
		Method: path.Base(method), Changes: answer.GetChanges(), Effects: answer.GetEffects(),
		EffectsLeftOut: int(answer.GetEffectsLeftOut()),
	}
}

// dryRunOfExec ends a command before it begins: nobody knows what it would do.
func (c *Client) dryRunOfExec() error {
	if c.shared.pool.isClosed() {
		return ErrClosed
	}
	return &DryRunError{Method: "Exec"}
}
