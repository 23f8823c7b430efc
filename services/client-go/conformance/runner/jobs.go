package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	borough "example.invalid/borough/services/client-go"
	pb "example.invalid/borough/services/client-go/boroughpb"
)

// jobToBuild is a job as a scenario describes it.
type jobToBuild struct {
	Name        string            `json:"name"`
	Count       *int              `json:"count"`
	Command     []string          `json:"command"`
	CPUMillis   *int64            `json:"cpu_millis"`
	MemoryBytes *int64            `json:"memory_bytes"`
	Ports       []string          `json:"ports"`
	Weight      *int              `json:"weight"`
	Labels      map[string]string `json:"labels"`
	Env         map[string]string `json:"env"`
	Priority    *int              `json:"priority"`
	Band        *string           `json:"band"`
	MaxAttempts *int              `json:"max_attempts"`
	Kind        string            `json:"kind"`
	Probe       *struct {
		Exec []string `json:"exec"`
		TCP  *string  `json:"tcp"`
		HTTP *string  `json:"http"`
		Path string   `json:"path"`
	} `json:"probe"`
}

const (
	cpuMillisDefault   = 50
	memoryBytesDefault = 32 * borough.MiB
)

// bandOf is a band by its name; a name that no band has gives a value that no band has.
func bandOf(name string) pb.Band {
	bands := map[string]pb.Band{
		"best_effort": pb.Band_BAND_BEST_EFFORT, "batch": pb.Band_BAND_BATCH, "production": pb.Band_BAND_PRODUCTION,
		"monitoring": pb.Band_BAND_MONITORING,
	}
	return bands[name]
}

// spec builds a job with the builder of the library.
func (s *step) spec() (*borough.JobSpec, error) {
	var job jobToBuild
	strict := json.NewDecoder(bytes.NewReader(s.Job))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&job); err != nil {
		return nil, fmt.Errorf("job %s: %w", s.Job, err)
	}
	begin := borough.NewService
	switch job.Kind {
	case "", "service":
	case "batch":
		begin = borough.NewBatch
	default:
		return nil, fmt.Errorf("kind: %q; accepted: service or batch", job.Kind)
	}
	builder := begin(job.Name, job.Command...).
		Ports(job.Ports...).Labels(job.Labels).Environment(job.Env).
		CPUMillis(cpuMillisDefault).MemoryBytes(memoryBytesDefault)
	set(job.Count, builder.Count)
	set(job.CPUMillis, builder.CPUMillis)
	set(job.MemoryBytes, builder.MemoryBytes)
	set(job.Priority, builder.Priority)
	set(job.Weight, builder.Weight)
	set(job.MaxAttempts, builder.MaxAttempts)
	if job.Band != nil {
		builder.Band(bandOf(*job.Band))
	}
	if probe := job.Probe; probe != nil {
		switch {
		case probe.TCP != nil:
			builder.CheckTCP(*probe.TCP)
		case probe.HTTP != nil:
			builder.CheckHTTP(*probe.HTTP, probe.Path)
		default:
			builder.CheckCommand(probe.Exec...)
		}
	}
	return builder.Build()
}

// set calls a method of the builder if the scenario has the value.
func set[T any](value *T, method func(T) *borough.JobBuilder) {
	if value != nil {
		method(*value)
	}
}

func (r *run) build(s *step) error {
	_, err := s.spec()
	return err
}

func (r *run) submit(s *step) error {
	spec, err := s.spec()
	if err != nil {
		return err
	}
	client := r.present()
	r.mu.Lock()
	// It may be admitted also if the call fails.
	r.submitted[submittedJob{client.Cell(), client.User(), spec.GetName()}] = true
	r.mu.Unlock()
	var options []borough.ChangeOption
	if s.RequestID != "" {
		options = append(options, borough.WithRequestID(s.RequestID))
	}
	submitted, err := client.SubmitJob(context.Background(), spec, options...)
	if err != nil {
		return err
	}
	if s.Save != "" {
		r.names.save(s.Save, submitted.Job.GetId())
	}
	return nil
}

func (s *step) jobRef() (borough.JobRef, error) {
	name, err := text(s.Job, "job")
	return borough.JobRef{Name: name}, err
}

func (r *run) scale(s *step) error {
	job, err := s.jobRef()
	if err != nil {
		return err
	}
	if s.Count == nil || *s.Count < 0 || *s.Count > 1<<32-1 {
		return errors.New("count: accepted: a number of tasks")
	}
	_, err = r.present().ScaleJob(context.Background(), job, uint32(*s.Count))
	return err
}

func (r *run) stop(s *step) error {
	job, err := s.jobRef()
	if err == nil {
		_, err = r.present().StopJob(context.Background(), job)
	}
	return err
}

// get reads a job, and compares it. With `within`, it waits until the job is as expected.
func (r *run) get(s *step) error {
	job, err := s.jobRef()
	if err != nil {
		return err
	}
	end := time.Now()
	if s.Within != nil {
		end = end.Add(s.within())
	}
	for {
		answer, err := r.present().GetJob(context.Background(), job)
		if err != nil {
			return err
		}
		differs := s.compareJob(answer.GetJob())
		if differs == nil || time.Now().After(end) {
			return differs
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *step) compareJob(job *borough.Job) error {
	if s.Expect == nil {
		return nil
	}
	if want := s.Expect.Count; want != nil && job.GetCount() != *want {
		return fmt.Errorf("count is %d and not %d", job.GetCount(), *want)
	}
	if want := s.Expect.Version; want != nil && job.GetSpecVersion() != *want {
		return fmt.Errorf("version is %d and not %d", job.GetSpecVersion(), *want)
	}
	if want := s.Expect.State; want != nil && stateOf(job) != *want {
		return fmt.Errorf("state is %s (%s) and not %s", stateOf(job), job.GetState(), *want)
	}
	return nil
}

// stateOf is the state of a job, as the suite names it.
func stateOf(job *borough.Job) string {
	switch job.GetState() {
	case pb.JobState_JOB_STATE_WAITING:
		return "queued"
	case pb.JobState_JOB_STATE_RUNNING, pb.JobState_JOB_STATE_STOPPING:
		return "running"
	default:
		return "ended"
	}
}

func (r *run) wait(s *step) error {
	job, err := s.jobRef()
	if err != nil {
		return err
	}
	aim, err := text(s.For, "for")
	if err != nil {
		return err
	}
	if aim != "healthy" && aim != "ended" {
		return fmt.Errorf("for: %q; accepted: healthy or ended", aim)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.within())
	defer cancel()
	waited, err := r.present().WaitJob(ctx, job, borough.WaitOptions{Ended: aim == "ended"})
	var failed *borough.WaitError
	outcome := borough.Outcome("")
	switch {
	case err == nil:
		outcome = waited.Outcome
	case errors.As(err, &failed):
		outcome = failed.Outcome
	default:
		return err
	}
	if s.Outcome == "" && err != nil {
		return err
	}
	if want := borough.Outcome(cmp.Or(s.Outcome, string(outcome))); outcome != want {
		return fmt.Errorf("the outcome is %s and not %s (%v)", outcome, want, err)
	}
	return nil
}

// list counts the rows of a job over all pages.
func (r *run) list(s *step) error {
	var job borough.JobRef
	if s.Job != nil {
		var err error
		if job, err = s.jobRef(); err != nil {
			return err
		}
	}
	ctx, client := context.Background(), r.present()
	count, seen, twice := 0, map[string]bool{}, ""
	is := func(name string, index uint32) {
		if job.Name != "" && name != job.Name {
			return
		}
		count++
		row := borough.JobRef{Name: name}.Task(index).String()
		if seen[row] {
			twice = row
		}
		seen[row] = true
	}
	var err error
	switch s.What {
	case "jobs":
		err = each(client.Jobs(ctx, borough.JobFilter{User: client.User(), PageSize: s.Page}),
			func(row *borough.Job) { is(row.GetName(), 0) })
	case "tasks":
		err = each(client.Tasks(ctx, borough.TaskFilter{Job: job.Name, PageSize: s.Page}),
			func(row *borough.Task) { is(row.GetJob(), row.GetIndex()) })
	case "federated":
		err = each(client.FederatedJobs(ctx, borough.FederatedFilter{User: client.User(), PageSize: s.Page}),
			func(row *borough.FederatedJob) { is(row.GetName(), 0) })
	case "endpoints":
		err = each(client.Endpoints(ctx, borough.EndpointFilter{Job: job.Name, PageSize: s.Page}),
			func(row *borough.Endpoint) { is(row.GetJob(), row.GetIndex()) })
	default:
		err = fmt.Errorf("what: %q; accepted: jobs, tasks, endpoints or federated", s.What)
	}
	if err == nil && twice != "" {
		err = fmt.Errorf("row %s comes twice", twice)
	}
	if err == nil && s.Count != nil && int64(count) != *s.Count {
		err = fmt.Errorf("%d %s of %s and not %d", count, s.What, job, *s.Count)
	}
	return err
}

func each[T any](rows iter.Seq2[T, error], visit func(T)) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		visit(row)
	}
	return nil
}
