// The command grpc-go is a gRPC client and server for tests: what a program in Go does with a target of xDS.
//
//	grpc-go client TARGET  calls the target from several goroutines until its input ends
//	grpc-go server PORT    answers every call with its port, after a moment
//
// The client prints one line for each call that failed, for every fiftieth call, and for each server that answers the
// first time since then. At last it prints how many calls it made and how many failed.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	_ "google.golang.org/grpc/xds" // Resolves targets of xDS.
)

const (
	method    = "/borough.test.Echo/Call"
	callers   = 8
	callLimit = 10 * time.Second
	// A client without a server does not keep the machine busy.
	failedPause = 50 * time.Millisecond
	// Long enough that a call is under way whenever a server ends.
	answerAfter = 50 * time.Millisecond
)

// raw passes messages as they are: the calls need no schema.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(value any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*value.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, value any) error {
	*value.(*[]byte) = data.Materialize()
	return nil
}

// tally is what all callers have seen.
type tally struct {
	sync.Mutex
	calls, failed int
	servers       map[string]bool
}

func (t *tally) count(server string, err error) {
	t.Lock()
	defer t.Unlock()
	t.calls++
	switch {
	case err != nil:
		t.failed++
		fmt.Println("failed", status.Code(err), status.Convert(err).Message())
	case !t.servers[server]:
		t.servers[server] = true
		fmt.Println("server", server)
	}
	if t.calls%50 == 0 {
		fmt.Println("calls", t.calls)
		clear(t.servers)
	}
}

func client(target string) error {
	channel, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})))
	if err != nil {
		return err
	}
	defer channel.Close()
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		close(over)
	}()
	seen := tally{servers: map[string]bool{}}
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), callLimit)
				var nothing, answer []byte
				err := channel.Invoke(ctx, method, &nothing, &answer)
				cancel()
				seen.count(string(answer), err)
				if err != nil {
					time.Sleep(failedPause)
				}
			}
		})
	}
	group.Wait()
	fmt.Println("over", seen.calls, seen.failed)
	return nil
}

// server answers until a signal ends it, in the middle of its calls: a client that is told in time has none under way.
func server(port string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	answer := func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		time.Sleep(answerAfter)
		answer := []byte(port)
		return stream.SendMsg(&answer)
	}
	return grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(answer)).Serve(listener)
}

func main() {
	run := map[string]func(string) error{"client": client, "server": server}
	if len(os.Args) != 3 || run[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: grpc-go client TARGET | grpc-go server PORT")
		os.Exit(2)
	}
	if err := run[os.Args[1]](os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
