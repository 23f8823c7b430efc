package borough

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// Amounts of memory.
const (
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
)

// JobBuilder builds the spec of a job. Its methods return the builder itself; [JobBuilder.Build] checks all of it. What
// a caller leaves out has the default of a job file.
type JobBuilder struct {
	spec *JobSpec
	// Fields whose values do not fit into a spec.
	invalid invalidFields
}

// NewService begins a job whose tasks run a command until somebody stops it: one task, a tenth of a core, 64 MiB.
func NewService(name string, command ...string) *JobBuilder {
	return newJob(pb.JobKind_JOB_KIND_SERVICE, name, command, &pb.RestartSpec{Mode: pb.RestartSpec_ALWAYS}, 200)
}

// NewBatch begins a job whose tasks run a command until it ends with 0. A task that fails starts again, three times.
func NewBatch(name string, command ...string) *JobBuilder {
	attempts := uint32(3)
	restart := &pb.RestartSpec{Mode: pb.RestartSpec_ON_FAILURE, AttemptsMax: &attempts}
	return newJob(pb.JobKind_JOB_KIND_BATCH, name, command, restart, 100)
}

func newJob(kind pb.JobKind, name string, command []string, restart *pb.RestartSpec, priority uint32) *JobBuilder {
	restart.BackoffInitialMs, restart.BackoffMaxMs, restart.ResetAfterMs = 500, 60_000, 120_000
	return &JobBuilder{spec: &JobSpec{
		Name: name, Kind: kind, Priority: priority, Count: 1, Restart: restart, Labels: map[string]string{},
		Task: &pb.TaskSpec{
			Command: slices.Clone(command), Environment: map[string]string{},
			Resources: &pb.Resources{CpuMillis: 100, MemoryBytes: 64 * MiB},
			GraceMs:   5000, Weight: 1, Log: &pb.LogSpec{FileBytesMax: 10 * MiB, FilesMax: 3},
		},
	}}
}

// whole is a number that must fit into a field of a spec.
func whole[T uint32 | uint64](b *JobBuilder, field string, value int64, accepted string) T {
	if value < 0 || int64(T(value)) != value {
		b.invalid.refuse(field, text(value), accepted)
		return 0
	}
	return T(value)
}

// millis is a time that a spec counts in milliseconds.
func (b *JobBuilder) millis(field string, value time.Duration) uint64 {
	if value < 0 || value%time.Millisecond != 0 {
		b.invalid.refuse(field, value.String(), "a whole number of milliseconds, 0 or more")
		return 0
	}
	return uint64(value / time.Millisecond)
}

// User names the owner. Otherwise it is the user of the client that submits the job.
func (b *JobBuilder) User(user string) *JobBuilder {
	b.spec.User = user
	return b
}

// Count sets the number of tasks, 0 to 100000.
func (b *JobBuilder) Count(count int) *JobBuilder {
	b.spec.Count = whole[uint32](b, "count", int64(count), countAccepted)
	return b
}

// Priority sets the priority, 0 to 399. Higher goes first.
func (b *JobBuilder) Priority(priority int) *JobBuilder {
	b.spec.Priority = whole[uint32](b, "priority", int64(priority), priorityAccepted)
	return b
}

// Band sets the lowest priority of a band.
func (b *JobBuilder) Band(band pb.Band) *JobBuilder {
	if band < pb.Band_BAND_BEST_EFFORT || band > pb.Band_BAND_MONITORING {
		b.invalid.refuse("priority", band.String(), "best_effort, batch, production or monitoring")
		return b
	}
	return b.Priority(100 * int(band-pb.Band_BAND_BEST_EFFORT))
}

// CPUMillis sets the processor time of a task, in thousandths of a core.
func (b *JobBuilder) CPUMillis(millis int64) *JobBuilder {
	b.spec.Task.Resources.CpuMillis = whole[uint64](b, "task.resources.cpu", millis, cpuAccepted)
	return b
}

// MemoryBytes sets the memory of a task, such as 128*[MiB].
func (b *JobBuilder) MemoryBytes(bytes int64) *JobBuilder {
	b.spec.Task.Resources.MemoryBytes = whole[uint64](b, "task.resources.memory", bytes, memoryAccepted)
	return b
}

// Devices sets how much of the devices of a kind a task has, in thousandths: 1000 is one gpu.
func (b *JobBuilder) Devices(kind string, millis int64) *JobBuilder {
	resources := b.spec.Task.Resources
	if resources.DeviceMillis == nil {
		resources.DeviceMillis = map[string]uint64{}
	}
	resources.DeviceMillis[kind] = whole[uint64](b, "task.resources.devices["+quoted(kind)+"]", millis, deviceAccepted)
	return b
}

// Ports adds ports by name. The scheduler hands out their numbers; the task finds each in PORT_NAME.
func (b *JobBuilder) Ports(names ...string) *JobBuilder {
	for _, name := range names {
		b.spec.Task.Ports = append(b.spec.Task.Ports, &pb.PortSpec{Name: name})
	}
	return b
}

// FixedPort adds a port with a number from 1024. Each node can then have one task of the job.
func (b *JobBuilder) FixedPort(name string, number int) *JobBuilder {
	fixed := whole[uint32](b, "task.ports["+text(len(b.spec.Task.Ports))+"].number", int64(number), portAccepted)
	b.spec.Task.Ports = append(b.spec.Task.Ports, &pb.PortSpec{Name: name, Number: &fixed})
	return b
}

// Env sets a variable of the environment.
func (b *JobBuilder) Env(name, value string) *JobBuilder {
	b.spec.Task.Environment[name] = value
	return b
}

// Environment sets variables of the environment.
func (b *JobBuilder) Environment(variables map[string]string) *JobBuilder {
	maps.Copy(b.spec.Task.Environment, variables)
	return b
}

// WorkingDirectory sets an absolute path. The default is the task's own directory.
func (b *JobBuilder) WorkingDirectory(path string) *JobBuilder {
	b.spec.Task.WorkingDirectory = &path
	return b
}

// Label sets a label of the job.
func (b *JobBuilder) Label(key, value string) *JobBuilder {
	b.spec.Labels[key] = value
	return b
}

// Labels sets labels of the job.
func (b *JobBuilder) Labels(labels map[string]string) *JobBuilder {
	maps.Copy(b.spec.Labels, labels)
	return b
}

// Description says what the job is for, in one line.
func (b *JobBuilder) Description(description string) *JobBuilder {
	b.spec.Description = description
	return b
}

// MaxAttempts limits the restarts in a row of a task.
func (b *JobBuilder) MaxAttempts(attempts int) *JobBuilder {
	most := whole[uint32](b, "restart.attempts_max", int64(attempts), "0 or more")
	b.spec.Restart.AttemptsMax = &most
	return b
}

// Restart says when a task that ends by itself starts again.
func (b *JobBuilder) Restart(mode pb.RestartSpec_Mode) *JobBuilder {
	b.spec.Restart.Mode = mode
	return b
}

// Grace sets the time between SIGTERM and SIGKILL.
func (b *JobBuilder) Grace(grace time.Duration) *JobBuilder {
	b.spec.Task.GraceMs = b.millis("task.grace_ms", grace)
	return b
}

// DrainDelay sets the time between the withdrawal of an endpoint and SIGTERM. 0 is the cell's, if the task has ports.
func (b *JobBuilder) DrainDelay(delay time.Duration) *JobBuilder {
	b.spec.DrainDelayMs = b.millis("drain_delay_ms", delay)
	return b
}

// ProgressDeadline sets how long [Client.WaitJob] waits while no further task becomes healthy.
func (b *JobBuilder) ProgressDeadline(deadline time.Duration) *JobBuilder {
	millis := b.millis("progress_deadline_ms", deadline)
	b.spec.ProgressDeadlineMs = &millis
	return b
}

// Weight sets the share of traffic of each task, 1 to 255.
func (b *JobBuilder) Weight(weight int) *JobBuilder {
	b.spec.Task.Weight = whole[uint32](b, "task.weight", int64(weight), weightAccepted)
	return b
}

// CheckHTTP checks health by a GET on a port. A task is healthy if the status is 200 to 399.
func (b *JobBuilder) CheckHTTP(port, path string) *JobBuilder {
	return b.check(&pb.HealthCheck{Probe: &pb.HealthCheck_Http{Http: &pb.HttpProbe{Port: port, Path: path}}})
}

// CheckTCP checks health by a connection to a port.
func (b *JobBuilder) CheckTCP(port string) *JobBuilder {
	return b.check(&pb.HealthCheck{Probe: &pb.HealthCheck_Tcp{Tcp: &pb.TcpProbe{Port: port}}})
}

// CheckCommand checks health by a command in the task's environment. A task is healthy if it ends with 0.
func (b *JobBuilder) CheckCommand(command ...string) *JobBuilder {
	probe := &pb.HealthCheck_Command{Command: &pb.CommandProbe{Command: slices.Clone(command)}}
	return b.check(&pb.HealthCheck{Probe: probe})
}

// CheckReady lets the program of a task say itself whether it is ready: by Ready and NotReady of the package task.
func (b *JobBuilder) CheckReady() *JobBuilder {
	return b.CheckCommand("sh", "-c", `test -e "$BOROUGH_TASK_DIR/ready"`)
}

func (b *JobBuilder) check(health *pb.HealthCheck) *JobBuilder {
	health.IntervalMs, health.TimeoutMs, health.FailuresMax, health.InitialGraceMs = 5000, 2000, 3, 10_000
	b.spec.Task.Health = health
	return b
}

// Require places tasks only on nodes with one of these values of an attribute or label.
func (b *JobBuilder) Require(attribute string, values ...string) *JobBuilder {
	b.spec.Constraints = append(b.spec.Constraints, &pb.Constraint{
		Attribute: attribute, Operator: pb.Constraint_IN, Values: slices.Clone(values),
	})
	return b
}

// Spread prefers to place tasks in different domains of an attribute, such as node.name.
func (b *JobBuilder) Spread(attribute string) *JobBuilder {
	b.spec.Spread = append(b.spec.Spread, &pb.Spread{Attribute: attribute, Weight: 100})
	return b
}

// After lets the job wait until another job of the same user has succeeded.
func (b *JobBuilder) After(job string) *JobBuilder {
	b.spec.After = append(b.spec.After, &pb.After{Job: job, Condition: pb.After_SUCCEEDED})
	return b
}

// UnavailableMax bounds how many tasks may be away while a rollout, a drain or a taint ends others.
func (b *JobBuilder) UnavailableMax(tasks int) *JobBuilder {
	most := whole[uint32](b, "update.unavailable_max", int64(tasks), countAccepted)
	b.update().UnavailableMax = &most
	return b
}

// SurgeMax lets a rollout run so many tasks beside the job's own until it is done.
func (b *JobBuilder) SurgeMax(tasks int) *JobBuilder {
	most := whole[uint32](b, "update.surge_max", int64(tasks), countAccepted)
	b.update().SurgeMax = &most
	return b
}

// Canaries lets so many tasks beside the job's own try a new version first. [Client.PromoteRollout] brings it to the
// others.
func (b *JobBuilder) Canaries(tasks int) *JobBuilder {
	b.update().Canaries = whole[uint32](b, "update.canaries", int64(tasks), countAccepted)
	return b
}

// update has the rules of rollouts, with their defaults.
func (b *JobBuilder) update() *pb.UpdateSpec {
	if b.spec.Update == nil {
		b.spec.Update = &pb.UpdateSpec{HealthyAfterMs: 10_000, FailuresMax: 2, OnFailure: pb.UpdateSpec_REVERT}
	}
	return b.spec.Update
}

// Customize changes the spec itself, for fields that the builder has no method for. The gateway checks those.
func (b *JobBuilder) Customize(change func(*JobSpec)) *JobBuilder {
	change(b.spec)
	return b
}

// Build returns a copy of the spec. An [InvalidError] lists everything that is wrong with it.
func (b *JobBuilder) Build() (*JobSpec, error) {
	invalid := slices.Clone(b.invalid)
	checkSpec(&invalid, b.spec)
	if err := invalid.err(); err != nil {
		return nil, err
	}
	return proto.CloneOf(b.spec), nil
}
