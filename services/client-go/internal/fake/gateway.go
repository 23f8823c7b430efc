// Package fake has a gateway for tests: it answers each method by a function.
package fake

import (
	"context"
	"errors"
	"net"
	"path"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Handler answers one call.
type Handler func(stream grpc.ServerStream) error

// Gateway is a server on loopback.
type Gateway struct {
	// Address is HOST:PORT.
	Address string

	mu       sync.Mutex
	handlers map[string]Handler
	calls    map[string]int
	server   *grpc.Server
	listener *listener
}

// New starts a gateway that ends with the test. Without a handler a method answers UNIMPLEMENTED.
func New(t testing.TB, options ...grpc.ServerOption) *Gateway {
	t.Helper()
	accepting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gateway := &Gateway{
		Address: accepting.Addr().String(), handlers: map[string]Handler{}, calls: map[string]int{},
		listener: &listener{Listener: accepting},
	}
	options = append([]grpc.ServerOption{
		grpc.Creds(insecure.NewCredentials()), grpc.UnknownServiceHandler(gateway.handle),
	}, options...)
	gateway.server = grpc.NewServer(options...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := gateway.server.Serve(gateway.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("fake gateway: %v", err)
		}
	}()
	t.Cleanup(func() {
		gateway.server.Stop()
		<-done
	})
	return gateway
}

// On sets the handler of a method, such as SubmitJob.
func (g *Gateway) On(method string, handler Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handlers[method] = handler
}

// Calls counts the calls of a method so far.
func (g *Gateway) Calls(method string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[method]
}

// Cut closes all connections.
func (g *Gateway) Cut() { g.listener.cut() }

func (g *Gateway) handle(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	method := path.Base(full)
	g.mu.Lock()
	g.calls[method]++
	handler := g.handlers[method]
	g.mu.Unlock()
	if handler == nil {
		return status.Errorf(codes.Unimplemented, "the fake has no %s", method)
	}
	return handler(stream)
}

// message is a pointer to a message.
type message[M any] interface {
	*M
	proto.Message
}

// Unary answers a request by a function.
func Unary[Q, A any, PQ message[Q], PA message[A]](answer func(ctx context.Context, request *Q) (*A, error)) Handler {
	return func(stream grpc.ServerStream) error {
		request := PQ(new(Q))
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		answer, err := answer(stream.Context(), request)
		if err != nil {
			return err
		}
		return stream.SendMsg(PA(answer))
	}
}

// Stream answers a request by a function that sends answers. A gateway takes the call before the first of them.
func Stream[Q, A any, PQ message[Q], PA message[A]](
	answer func(ctx context.Context, request *Q, send func(*A) error) error,
) Handler {
	return func(stream grpc.ServerStream) error {
		request := PQ(new(Q))
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		if err := stream.SendHeader(metadata.MD{}); err != nil {
			return err
		}
		return answer(stream.Context(), request, func(answer *A) error { return stream.SendMsg(PA(answer)) })
	}
}

// listener keeps its connections, to cut them.
type listener struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

// Accept accepts a connection.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		// One that is closed already needs nothing.
		_ = conn.Close()
	}
	l.conns = nil
}
