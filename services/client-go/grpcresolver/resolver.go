// Package grpcresolver lets grpc balance over the tasks of a Borough job:
//
//	conn, err := grpc.NewClient("borough:///web.ann.alpha?port=grpc",
//		grpc.WithResolvers(grpcresolver.New(client)), ...)
//
// The target is borough:///JOB.USER.CELL. Without a cell, or without a user and a cell, it means those of the client.
// The parameter port names a port of the job; a job with one port needs none.
//
// The connection uses round_robin unless its own service configuration says otherwise. That gives each task the same
// share, whatever its weight. While no gateway answers, the connection keeps the endpoints that it knows.
package grpcresolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	borough "example.invalid/borough/services/client-go"
	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Scheme is the scheme of the targets.
const Scheme = "borough"

// The pause after a refusal. Somebody may give the caller the missing right meanwhile.
const refusedPause = 5 * time.Second

const roundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// New makes a builder for the option grpc.WithResolvers, or for resolver.Register. It uses the client, which must stay
// open as long as the connections.
func New(client *borough.Client) resolver.Builder { return &builder{client} }

type builder struct{ client *borough.Client }

// Scheme returns "borough".
func (b *builder) Scheme() string { return Scheme }

// Build follows the endpoints of a target.
func (b *builder) Build(
	target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	name, err := parse(target, b.client)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	client := b.client.WithCell(name.cell)
	r := &following{client: client, name: name, conn: conn, cancel: cancel, done: make(chan struct{})}
	go r.run(ctx)
	return r, nil
}

// name is what a target says.
type name struct {
	job  borough.JobRef
	cell string
	port string
}

func parse(target resolver.Target, client *borough.Client) (name, error) {
	refuse := func(problem string) (name, error) {
		return name{}, fmt.Errorf("target %q %s; accepted: borough:///JOB.USER.CELL?port=NAME", target.String(), problem)
	}
	if target.URL.Host != "" {
		return refuse("has the authority " + strconv.Quote(target.URL.Host))
	}
	parts := strings.Split(strings.Trim(target.URL.Path, "/"), ".")
	if len(parts) > 3 || parts[0] == "" {
		return refuse("names no job")
	}
	found := name{borough.JobRef{Name: parts[0], User: client.User()}, client.Cell(), target.URL.Query().Get("port")}
	if len(parts) > 1 {
		found.job.User = parts[1]
	}
	if len(parts) > 2 {
		found.cell = parts[2]
	}
	if found.job.User == "" || found.cell == "" {
		return refuse("names no user or no cell, and the client has none")
	}
	return found, nil
}

// following is the resolver of one connection.
type following struct {
	client *borough.Client
	name   name
	conn   resolver.ClientConn
	cancel context.CancelFunc
	done   chan struct{}
	// known are the addresses that the connection has.
	known []string
	once  sync.Once
}

// ResolveNow does nothing: changes come by themselves.
func (r *following) ResolveNow(resolver.ResolveNowOptions) {}

// Close ends the watch.
func (r *following) Close() {
	r.once.Do(r.cancel)
	<-r.done
}

func (r *following) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		var table borough.EndpointTable
		for item, err := range r.client.WatchEndpoints(ctx, r.name.job, nil) {
			if err != nil {
				r.conn.ReportError(err)
				break
			}
			if absent, is := item.(borough.Absent); is && !table.Complete() {
				r.conn.ReportError(absent.Err)
			}
			if table.Apply(item) && table.Complete() {
				r.update(table.Endpoints())
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(refusedPause):
		}
	}
}

func (r *following) update(endpoints []*borough.Endpoint) {
	addresses, err := addressesOf(endpoints, r.name.port)
	if err != nil {
		r.conn.ReportError(err)
		return
	}
	if len(addresses) > 0 && slices.Equal(addresses, r.known) {
		return
	}
	r.known = addresses
	state := resolver.State{ServiceConfig: r.conn.ParseServiceConfig(roundRobin)}
	for _, address := range addresses {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
	}
	// The connection asks again when it wants to, and changes come by themselves.
	_ = r.conn.UpdateState(state)
}

// addressesOf are the addresses of a port. Endpoints that are not healthy count only if no other is there.
func addressesOf(endpoints []*borough.Endpoint, port string) ([]string, error) {
	var healthy, others []string
	for _, endpoint := range endpoints {
		number, err := portOf(endpoint, port)
		if err != nil {
			return nil, err
		}
		address := net.JoinHostPort(endpoint.GetHost(), strconv.FormatUint(uint64(number), 10))
		if endpoint.GetHealth() == pb.Health_HEALTH_UNHEALTHY {
			others = append(others, address)
		} else {
			healthy = append(healthy, address)
		}
	}
	if len(healthy) == 0 {
		return others, nil
	}
	return healthy, nil
}

func portOf(endpoint *borough.Endpoint, name string) (uint32, error) {
	ports := endpoint.GetPorts()
	if name == "" && len(ports) == 1 {
		return ports[0].GetNumber(), nil
	}
	names := make([]string, len(ports))
	for at, port := range ports {
		if port.GetName() == name {
			return port.GetNumber(), nil
		}
		names[at] = port.GetName()
	}
	if len(names) == 0 {
		return 0, errors.New("endpoint " + endpoint.GetName() + " has no ports")
	}
	return 0, fmt.Errorf("endpoint %s has no port %q; accepted: port=NAME with one of %s", endpoint.GetName(), name,
		strings.Join(names, ", "))
}
