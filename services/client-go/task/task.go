// Package task is for the program that runs as a task of a Borough job. It answers: who am I, what are my ports, who
// are my peers? It also says to the check of the job whether the task is ready.
package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	borough "example.invalid/borough/services/client-go"
)

// ErrOutside says that the program does not run as a task.
var ErrOutside = errors.New("this program does not run as a task of Borough: BOROUGH_JOB is not set")

// Identity is who a task is, as its agent says in the environment.
type Identity struct {
	Cell string
	User string
	// Job is the name of the job.
	Job string
	// Index is the number of the task within its job, from 0.
	Index uint32
	// Attempt is the incarnation: each start of the task has a higher one.
	Attempt uint64
	// Node is the name of its node, Host the address at which others reach it.
	Node, Host string
	// Directory is the task's own. It ends with the attempt.
	Directory string
	// Role and RoleIndex are its role and its number in that. Role is empty in a job without roles.
	Role      string
	RoleIndex uint32
	// Helper is the name of the helper that the program is. Empty: it is the command of the task.
	Helper string
	// Alloc is the place that the task is in, or nil.
	Alloc *Alloc

	environment []string
}

// Alloc is a place of an alloc set that has a task.
type Alloc struct {
	// Set is the name of the alloc set, Index the place in it.
	Set   string
	Index uint32
	// Directory is shared by the tasks of the alloc.
	Directory string
}

// Self reads who this program is. It returns [ErrOutside] if it is no task.
func Self() (*Identity, error) { return read(os.Environ()) }

// read reads an environment.
func read(environment []string) (*Identity, error) {
	variables := map[string]string{}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	if variables["BOROUGH_JOB"] == "" {
		return nil, ErrOutside
	}
	self := &Identity{
		Cell: variables["BOROUGH_CELL"], User: variables["BOROUGH_USER"], Job: variables["BOROUGH_JOB"],
		Node: variables["BOROUGH_NODE"], Host: variables["HOST"], Directory: variables["BOROUGH_TASK_DIR"],
		Role: variables["BOROUGH_ROLE"], Helper: variables["BOROUGH_HELPER"], environment: environment,
	}
	numbers := numberReader{variables: variables}
	self.Index = uint32(numbers.read("BOROUGH_INDEX", 32))
	self.Attempt = numbers.read("BOROUGH_ATTEMPT", 64)
	if self.Role != "" {
		self.RoleIndex = uint32(numbers.read("BOROUGH_ROLE_INDEX", 32))
	}
	if set := variables["BOROUGH_ALLOC_SET"]; set != "" {
		index := uint32(numbers.read("BOROUGH_ALLOC_INDEX", 32))
		self.Alloc = &Alloc{set, index, variables["BOROUGH_ALLOC_DIR"]}
	}
	return self, numbers.err
}

// numberReader reads numbers until one is wrong.
type numberReader struct {
	variables map[string]string
	err       error
}

func (r *numberReader) read(name string, bits int) uint64 {
	number, err := strconv.ParseUint(r.variables[name], 10, bits)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %q; accepted: a whole number", name, r.variables[name])
	}
	return number
}

// JobRef names the job of the task.
func (id *Identity) JobRef() borough.JobRef { return borough.JobRef{User: id.User, Name: id.Job} }

// Ref names the task.
func (id *Identity) Ref() borough.TaskRef { return id.JobRef().Task(id.Index) }

// Name is the name of the endpoint of the task: INDEX.JOB.USER.CELL.
func (id *Identity) Name() string {
	return strings.Join([]string{strconv.FormatUint(uint64(id.Index), 10), id.Job, id.User, id.Cell}, ".")
}

// Port is the number of a port of the task. The error lists the ports that there are.
func (id *Identity) Port(name string) (int, error) {
	return id.port("PORT_", borough.PortVariable(name), name)
}

// AllocPort is the number of a port of the alloc that the task is in.
func (id *Identity) AllocPort(name string) (int, error) {
	return id.port("BOROUGH_ALLOC_PORT_", "BOROUGH_ALLOC_"+borough.PortVariable(name), name)
}

func (id *Identity) port(prefix, variable, name string) (int, error) {
	var known []string
	for _, each := range id.environment {
		key, value, _ := strings.Cut(each, "=")
		if key == variable {
			number, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return 0, fmt.Errorf("%s: %q; accepted: a port", key, value)
			}
			return int(number), nil
		}
		if port, is := strings.CutPrefix(key, prefix); is {
			known = append(known, strings.ReplaceAll(strings.ToLower(port), "_", "-"))
		}
	}
	slices.Sort(known)
	return 0, fmt.Errorf("the task has no port %q; known: %s", name, strings.Join(known, ", "))
}

// The file of this name in the directory of a task says that it is ready.
const readyFile = "ready"

// Ready says that the task is ready, for a job whose check is [borough.JobBuilder.CheckReady]. Borough publishes the
// endpoint of a task when its check passes.
func (id *Identity) Ready() error {
	return os.WriteFile(filepath.Join(id.Directory, readyFile), nil, 0o644)
}

// NotReady takes back that the task is ready. A task that stays so is restarted, after as many checks as its job bears.
func (id *Identity) NotReady() error {
	err := os.Remove(filepath.Join(id.Directory, readyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Peers returns the endpoints of the other tasks of the job, by index.
func (id *Identity) Peers(ctx context.Context, client *borough.Client) ([]*borough.Endpoint, error) {
	filter := borough.EndpointFilter{User: id.User, Job: id.Job}
	all, err := borough.Collect(client.WithCell(id.Cell).Endpoints(ctx, filter))
	return id.others(all), err
}

// WatchPeers yields the endpoints of the other tasks of the job, at once and after each change. It ends as
// [borough.Client.WatchEndpoints] does.
func (id *Identity) WatchPeers(ctx context.Context, client *borough.Client) iter.Seq2[[]*borough.Endpoint, error] {
	return func(yield func([]*borough.Endpoint, error) bool) {
		var table borough.EndpointTable
		var peers []*borough.Endpoint
		equal := func(one, other *borough.Endpoint) bool { return proto.Equal(one, other) }
		for item, err := range client.WithCell(id.Cell).WatchEndpoints(ctx, id.JobRef(), nil) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !table.Apply(item) || !table.Complete() {
				continue
			}
			before := peers
			peers = id.others(table.Endpoints())
			if before != nil && slices.EqualFunc(before, peers, equal) {
				continue
			}
			if !yield(peers, nil) {
				return
			}
		}
	}
}

func (id *Identity) others(endpoints []*borough.Endpoint) []*borough.Endpoint {
	return slices.DeleteFunc(endpoints, func(endpoint *borough.Endpoint) bool {
		return endpoint.GetIndex() == id.Index
	})
}
