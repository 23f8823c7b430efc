package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	borough "example.invalid/borough/services/client-go"
	"example.invalid/borough/services/client-go/grpcresolver"
)

func (s *step) taskRef() (borough.TaskRef, error) {
	name, number, found := strings.Cut(s.Task, "/")
	index, err := strconv.ParseUint(number, 10, 32)
	if !found || err != nil {
		return borough.TaskRef{}, fmt.Errorf("task: %q; accepted: JOB/INDEX", s.Task)
	}
	return borough.JobRef{Name: name}.Task(uint32(index)), nil
}

// signal sends a signal to the command of a task.
func (r *run) signal(s *step) error {
	task, err := s.taskRef()
	if err != nil {
		return err
	}
	return r.present().SignalTask(context.Background(), task, syscall.Signal(s.Signal))
}

// logs reads the output of a task until it contains a text.
func (r *run) logs(s *step) error {
	task, err := s.taskRef()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.within())
	defer cancel()
	var output bytes.Buffer
	for part, err := range r.present().TaskLogs(ctx, task, borough.LogQuery{Follow: s.Follow}) {
		if err != nil {
			return err
		}
		output.Write(part.Data)
		if strings.Contains(output.String(), s.Contains) {
			return nil
		}
	}
	if strings.Contains(output.String(), s.Contains) {
		return nil
	}
	return fmt.Errorf("the output %q does not contain %q", output.String(), s.Contains)
}

// exec runs a command in a task, and compares its output and its exit status.
func (r *run) exec(s *step) error {
	task, err := s.taskRef()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.within())
	defer cancel()
	var output, errorOutput bytes.Buffer
	exit, err := r.present().Exec(ctx, task, s.Command, borough.ExecIO{
		Stdin: strings.NewReader(s.Input), Stdout: &output, Stderr: &errorOutput,
	})
	switch {
	case err != nil:
		return err
	case s.Output != nil && output.String() != *s.Output:
		return fmt.Errorf("the output is %q (and %q) and not %q", output.String(), errorOutput.String(), *s.Output)
	case s.Exit != nil && (exit.Signal != 0 || exit.Code != *s.Exit):
		return fmt.Errorf("the end is %s and not exit code %d", exit, *s.Exit)
	}
	return nil
}

// resolve asks the resolver of the library for addresses.
func (r *run) resolve(s *step) error {
	job, err := s.jobRef()
	if err != nil {
		return err
	}
	if s.Count == nil {
		return errors.New("count: accepted: a number of addresses")
	}
	client := r.present()
	target, err := url.Parse(fmt.Sprintf("%s:///%s.%s.%s?port=%s", grpcresolver.Scheme, job.Name, client.User(),
		client.Cell(), url.QueryEscape(s.Port)))
	if err != nil {
		return err
	}
	conn := &resolved{states: make(chan struct{}, 1)}
	following, err := grpcresolver.New(client).Build(resolver.Target{URL: *target}, conn, resolver.BuildOptions{})
	if err != nil {
		return err
	}
	defer following.Close()
	timeout := time.After(s.within())
	for {
		addresses, err := conn.addresses()
		distinct := slices.Compact(slices.Sorted(slices.Values(addresses)))
		if len(addresses) == int(*s.Count) && len(distinct) == len(addresses) {
			return nil
		}
		select {
		case <-conn.states:
		case <-timeout:
			if err != nil {
				return err
			}
			return fmt.Errorf("the addresses are %v and not %d", addresses, *s.Count)
		}
	}
}

// resolved stands for a connection of grpc that gets addresses.
type resolved struct {
	states chan struct{}

	mu    sync.Mutex
	state resolver.State
	err   error
}

func (c *resolved) note(set func()) {
	c.mu.Lock()
	set()
	c.mu.Unlock()
	select {
	case c.states <- struct{}{}:
	default:
	}
}

func (c *resolved) addresses() ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, endpoint := range c.state.Endpoints {
		for _, address := range endpoint.Addresses {
			all = append(all, address.Addr)
		}
	}
	return all, c.err
}

// UpdateState takes addresses.
func (c *resolved) UpdateState(state resolver.State) error {
	c.note(func() { c.state, c.err = state, nil })
	return nil
}

// ReportError takes an error.
func (c *resolved) ReportError(err error) { c.note(func() { c.err = err }) }

// NewAddress is the old form of UpdateState.
func (c *resolved) NewAddress([]resolver.Address) {}

// ParseServiceConfig is not needed to see addresses.
func (c *resolved) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }
