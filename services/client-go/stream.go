package borough

import (
	"context"

	"google.golang.org/grpc"
)

// source is an open stream of answers. A goroutine reads it, so that its reader can wait for other things too.
type source[M any] struct {
	// number is that of its gateway.
	number   int
	received chan received[M]
	cancel   context.CancelFunc
}

// received is what comes from a stream: that it is open, a message, or its end.
type received[M any] struct {
	message *M
	// ended: with refused nil, the gateway has ended the stream without an error.
	ended   bool
	refused *RefusedError
}

// answers is a stream of answers to one request.
type answers[M any] = grpc.ServerStreamingClient[M]

// opener opens a stream over a connection.
type opener[M any] func(ctx context.Context, conn grpc.ClientConnInterface) (answers[M], error)

// openSource opens a stream on the gateway in use. Whoever reads it decides whether that gateway has failed.
func openSource[M any](ctx context.Context, c *Client, open opener[M]) *source[M] {
	ctx, cancel := context.WithCancel(c.authorized(ctx))
	number, _ := c.shared.pool.choose(nil)
	s := &source[M]{number, make(chan received[M]), cancel}
	go s.read(ctx, c, open)
	return s
}

func (s *source[M]) read(ctx context.Context, c *Client, open opener[M]) {
	defer s.cancel()
	stream, err := open(ctx, c.shared.pool.gateways[s.number].conn)
	if err == nil {
		// It waits until the gateway has taken the call. The error of a refused one comes with the first message.
		if header, headerErr := stream.Header(); headerErr == nil && header != nil {
			c.shared.pool.answered(s.number)
			if !s.send(ctx, received[M]{}) {
				return
			}
		}
	}
	for err == nil {
		var message *M
		if message, err = stream.Recv(); err == nil && !s.send(ctx, received[M]{message: message}) {
			return
		}
	}
	if ctx.Err() != nil {
		return
	}
	end := received[M]{ended: true}
	if !isEOF(err) {
		end.refused = asRefusal(err)
	}
	s.send(ctx, end)
}

func (s *source[M]) send(ctx context.Context, item received[M]) bool {
	select {
	case s.received <- item:
		return true
	case <-ctx.Done():
		return false
	}
}
