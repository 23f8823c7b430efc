package grpcresolver

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"

	borough "example.invalid/borough/services/client-go"
	pb "example.invalid/borough/services/client-go/boroughpb"
	"example.invalid/borough/services/client-go/internal/fake"
)

func clientOf(t *testing.T, gateway string) *borough.Client {
	t.Helper()
	client, err := borough.New(borough.Config{Gateways: []string{gateway}, User: "ann", Cell: "alpha"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestTargetsAreRead(t *testing.T) {
	client := clientOf(t, "localhost:1")
	for _, test := range []struct {
		target string
		want   name
	}{
		{"borough:///web", name{borough.JobRef{User: "ann", Name: "web"}, "alpha", ""}},
		{"borough:///web.bob", name{borough.JobRef{User: "bob", Name: "web"}, "alpha", ""}},
		{"borough:///web.bob.beta?port=http", name{borough.JobRef{User: "bob", Name: "web"}, "beta", "http"}},
	} {
		parsed, err := url.Parse(test.target)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parse(resolver.Target{URL: *parsed}, client); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v", test.target, got, err)
		}
	}
	for _, target := range []string{"borough:///", "borough://host/web", "borough:///0.web.bob.beta", "borough:///.bob"} {
		parsed, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(resolver.Target{URL: *parsed}, client); err == nil || !strings.Contains(err.Error(), "accepted: ") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func endpoint(index uint32, host string, health pb.Health, ports ...*pb.Port) *borough.Endpoint {
	return &borough.Endpoint{Name: "e", User: "ann", Job: "web", Index: index, Incarnation: 1, Host: host, Health: health, Ports: ports}
}

func TestAddressesAreThoseOfAPort(t *testing.T) {
	http, admin := &pb.Port{Name: "http", Number: 80}, &pb.Port{Name: "admin", Number: 81}
	healthy, unhealthy := pb.Health_HEALTH_HEALTHY, pb.Health_HEALTH_UNHEALTHY
	for _, test := range []struct {
		endpoints []*borough.Endpoint
		port      string
		want      []string
		err       string
	}{
		{[]*borough.Endpoint{endpoint(0, "h", healthy, http)}, "", []string{"h:80"}, ""},
		{[]*borough.Endpoint{endpoint(0, "::1", healthy, http, admin)}, "admin", []string{"[::1]:81"}, ""},
		{[]*borough.Endpoint{endpoint(0, "a", healthy, http), endpoint(1, "b", unhealthy, http)}, "http", []string{"a:80"}, ""},
		{[]*borough.Endpoint{endpoint(1, "b", unhealthy, http)}, "http", []string{"b:80"}, ""},
		{nil, "http", nil, ""},
		{[]*borough.Endpoint{endpoint(0, "h", healthy, http, admin)}, "", nil, `has no port ""; accepted: port=NAME with one of http, admin`},
		{[]*borough.Endpoint{endpoint(0, "h", healthy)}, "http", nil, "has no ports"},
	} {
		got, err := addressesOf(test.endpoints, test.port)
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%v, %v and not %v, %s", got, err, test.want, test.err)
		}
	}
}

// backend is a task of the job: a server that answers.
func backend(t *testing.T) *pb.Port {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, answering{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Port{Name: "grpc", Number: uint32(number)}
}

type answering struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (answering) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// grpc itself balances over the tasks of a job, follows the job, and goes on with what it knows during an outage.
func TestGRPCBalancesOverAName(t *testing.T) {
	first, second, third := backend(t), backend(t), backend(t)
	changes := make(chan *pb.WatchEndpointsResponse, 10)
	gateway := fake.New(t)
	gateway.On("WatchEndpoints", fake.Stream(func(ctx context.Context, request *pb.WatchEndpointsRequest, send func(*pb.WatchEndpointsResponse) error) error {
		if request.GetUser() != "ann" || request.GetJob() != "web" || request.GetCell() != "beta" {
			t.Errorf("%v is watched", request)
		}
		for {
			select {
			case change := <-changes:
				if err := send(change); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}))
	stamp := byte(0)
	change := func(message *pb.WatchEndpointsResponse) {
		stamp++
		message.Cursor = &pb.Cursor{Stamp: []byte{stamp}}
		changes <- message
	}
	publish := func(index uint32, port *pb.Port, more bool) {
		published := endpoint(index, "127.0.0.1", pb.Health_HEALTH_HEALTHY, port)
		change(&pb.WatchEndpointsResponse{Event: &pb.WatchEndpointsResponse_Published{Published: published}, More: more})
	}
	publish(0, first, true)
	publish(1, second, true)
	change(&pb.WatchEndpointsResponse{Event: &pb.WatchEndpointsResponse_Bookmark{Bookmark: true}})

	conn, err := grpc.NewClient("borough:///web.ann.beta?port=grpc",
		grpc.WithResolvers(New(clientOf(t, gateway.Address))), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	expectServers(t, conn, first, second)
	change(&pb.WatchEndpointsResponse{Event: &pb.WatchEndpointsResponse_Withdrawn{
		Withdrawn: &pb.EndpointWithdrawn{User: "ann", Job: "web", Index: 0, Incarnation: 1},
	}})
	publish(2, third, false)
	expectServers(t, conn, second, third)
	gateway.Cut()
	expectServers(t, conn, second, third)
}

// expectServers waits until calls go to just these servers.
func expectServers(t *testing.T, conn *grpc.ClientConn, ports ...*pb.Port) {
	t.Helper()
	var want []string
	for _, port := range ports {
		want = append(want, "127.0.0.1:"+strconv.Itoa(int(port.GetNumber())))
	}
	slices.Sort(want)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		var called []string
		for range 20 {
			var server peer.Peer
			_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{},
				grpc.Peer(&server), grpc.WaitForReady(true))
			if err != nil {
				t.Fatal(err)
			}
			called = append(called, server.Addr.String())
		}
		slices.Sort(called)
		if slices.Equal(slices.Compact(called), want) {
			return
		}
	}
}
