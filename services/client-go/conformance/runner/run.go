package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	borough "example.invalid/borough/services/client-go"
)

// run is one scenario that is under way.
type run struct {
	world *world
	names *names

	mu     sync.Mutex
	client *borough.Client
	// opened are all clients of the scenario.
	opened  []*borough.Client
	watches map[string]*watch
	// submitted are the jobs to stop at the end, by their users and cells.
	submitted map[submittedJob]bool
}

type submittedJob struct{ cell, user, name string }

// operations are those of tests/clients/README.md. The function init fills it, since together refers to it.
var operations map[string]func(*run, *step) error

func init() {
	operations = map[string]func(*run, *step) error{
		"client": (*run).newClient, "fault": (*run).fault, "submit": (*run).submit, "build": (*run).build,
		"scale": (*run).scale, "stop": (*run).stop, "get": (*run).get, "wait": (*run).wait, "list": (*run).list,
		"watch": (*run).watch, "until": (*run).until, "items": (*run).items, "audit": (*run).audit,
		"unwatch": (*run).unwatch, "logs": (*run).logs, "exec": (*run).exec, "resolve": (*run).resolve,
		"together": (*run).together, "same": (*run).same, "signal": (*run).signal, "pause": (*run).pause,
		"federated": (*run).federated, "join": (*run).join, "keys": (*run).keys,
	}
}

func newRun(world *world) (*run, error) {
	r := &run{
		world: world, watches: map[string]*watch{}, submitted: map[submittedJob]bool{},
		names: &names{values: map[string]string{
			"run": world.Run, "id": world.ID, "web": world.Web, "direct": world.Direct, "token": world.Token,
			"user": world.User, "cell": world.Cell, "control": world.Control,
		}},
	}
	return r, r.newClient(&step{})
}

// newClient replaces the client. What the step leaves out is as at the begin of a scenario.
func (r *run) newClient(s *step) error {
	config := borough.Config{
		Gateways: r.world.Gateways, Token: borough.Secret(r.world.Token), User: r.world.User, Cell: r.world.Cell,
		Deadline: time.Duration(s.Deadline) * time.Millisecond, Retry: borough.RetryPolicy{AttemptsMax: s.Attempts},
	}
	if s.TLS {
		files := r.world.TLS
		config.Gateways, config.Token = []string{files.Gateway}, ""
		config.TLS = &borough.TLS{CA: files.CA, Certificate: files.Certificate, Key: files.Key}
	}
	if s.Gateways != nil {
		config.Gateways = nil
		for _, raw := range s.Gateways {
			address, err := r.address(raw)
			if err != nil {
				return err
			}
			config.Gateways = append(config.Gateways, address)
		}
	}
	if s.Token != nil {
		config.Token = borough.Secret(*s.Token)
		if *s.Token == "none" {
			config.Token = ""
		}
	}
	if s.User != nil {
		config.User = *s.User
	}
	if s.Cell != nil {
		config.Cell = *s.Cell
	}
	client, err := borough.New(config)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client, r.opened = client, append(r.opened, client)
	if s.DryRun {
		r.client = client.WithDryRun()
	}
	return nil
}

// address is a gateway: an index of the world's, or an address.
func (r *run) address(raw json.RawMessage) (string, error) {
	var index int
	if json.Unmarshal(raw, &index) == nil {
		if index < 0 || index >= len(r.world.Gateways) {
			return "", fmt.Errorf("there is no gateway %d", index)
		}
		return r.world.Gateways[index], nil
	}
	return text(raw, "gateways")
}

func (r *run) present() *borough.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
}

// fault posts a fault to the control of the proxy.
func (r *run) fault(s *step) error {
	fault := map[string]any{}
	for key, value := range s.raw {
		if key != "do" {
			fault[key] = value
		}
	}
	return r.post(fault)
}

func (r *run) post(fault map[string]any) error {
	body, err := json.Marshal(fault)
	if err != nil {
		return err
	}
	address := r.world.Control
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	answer, err := http.Post(strings.TrimSuffix(address, "/")+"/fault", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("the proxy refuses fault %s: %s: %s", body, answer.Status, said)
	}
	return err
}

// cleanUp heals the proxies, stops the jobs of the scenario, and closes its clients.
func (r *run) cleanUp() error {
	var failures []error
	for _, watch := range r.watches {
		watch.cancel()
	}
	if err := r.post(map[string]any{"kind": "heal", "gateway": "all"}); err != nil {
		failures = append(failures, err)
	}
	for _, client := range r.opened {
		failures = append(failures, client.Close())
	}
	direct, err := borough.New(borough.Config{
		Gateways: []string{r.world.Direct}, Token: borough.Secret(r.world.Token), User: r.world.User, Cell: r.world.Cell,
	})
	if err != nil {
		return errors.Join(append(failures, err)...)
	}
	defer direct.Close()
	for job := range r.submitted {
		client := direct.WithCell(job.cell).WithUser(job.user)
		_, err := client.StopJob(context.Background(), borough.JobRef{Name: job.name})
		// It may have ended.
		var refused *borough.RefusedError
		if errors.As(err, &refused) && (refused.Code == codes.FailedPrecondition || refused.Code == codes.NotFound) {
			err = nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// pause lets time pass.
func (r *run) pause(s *step) error {
	var millis int64
	if err := json.Unmarshal(s.For, &millis); err != nil {
		return fmt.Errorf("for: %s; accepted: milliseconds", s.For)
	}
	time.Sleep(time.Duration(millis) * time.Millisecond)
	return nil
}
