package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	borough "example.invalid/borough/services/client-go"
)

// federated makes a call about a federated job, and compares what it says.
func (r *run) federated(s *step) error {
	ctx, client := context.Background(), r.present()
	var ref borough.JobRef
	if s.Job != nil {
		var err error
		if ref, err = s.jobRef(); err != nil {
			return err
		}
	}
	var job *borough.FederatedJob
	var err error
	switch s.Call {
	case "run":
		return r.runFederated(s, string(s.File), s.Revision)
	case "again":
		known, err := client.GetFederatedJob(ctx, ref)
		if err != nil {
			return err
		}
		return r.runFederated(s, known.GetJobFile(), known.GetJob().GetRevision())
	case "history":
		versions, err := client.FederatedJobHistory(ctx, ref)
		if err == nil && s.Expect != nil && s.Expect.Count != nil && len(versions) != int(*s.Expect.Count) {
			err = fmt.Errorf("%d versions and not %d", len(versions), *s.Expect.Count)
		}
		return err
	case "get":
		known, failure := client.GetFederatedJob(ctx, ref)
		job, err = known.GetJob(), failure
	case "scale":
		if s.Count == nil || *s.Count < 0 || *s.Count > 1<<32-1 {
			return errors.New("count: accepted: a number of tasks")
		}
		job, err = client.ScaleFederatedJob(ctx, ref, uint32(*s.Count))
	case "stop":
		job, err = client.StopFederatedJob(ctx, ref)
	case "pause":
		job, err = client.PauseFederatedRelease(ctx, ref)
	case "resume":
		job, err = client.ResumeFederatedRelease(ctx, ref)
	case "approve":
		job, err = client.ApproveFederatedRelease(ctx, ref, s.Stage)
	case "undo":
		job, err = client.UndoFederatedRelease(ctx, ref)
	case "forget":
		job, err = client.ForgetFederatedJob(ctx, ref)
	default:
		return fmt.Errorf("call: %q is not known", s.Call)
	}
	if err != nil {
		return err
	}
	return s.compareFederated(job)
}

// runFederated runs a job file, and compares what became of it.
func (r *run) runFederated(s *step, text string, revision uint64) error {
	file, err := borough.ParseJobFile(text)
	if err != nil {
		return err
	}
	answer, err := r.present().RunFederatedJob(context.Background(), file, borough.IfRevision(revision))
	if err != nil {
		return err
	}
	if s.Expect != nil && s.Expect.Changed != nil && answer.GetChanged() != *s.Expect.Changed {
		return fmt.Errorf("changed is %t", answer.GetChanged())
	}
	return s.compareFederated(answer.GetJob())
}

func (s *step) compareFederated(job *borough.FederatedJob) error {
	if s.Expect == nil {
		return nil
	}
	if want := s.Expect.Count; want != nil && job.GetCount() != *want {
		return fmt.Errorf("count is %d and not %d", job.GetCount(), *want)
	}
	if want := s.Expect.Version; want != nil && job.GetVersion() != uint64(*want) {
		return fmt.Errorf("version is %d and not %d", job.GetVersion(), *want)
	}
	if want := s.Expect.Revision; want != nil && job.GetRevision() != *want {
		return fmt.Errorf("revision is %d and not %d", job.GetRevision(), *want)
	}
	state := strings.ToLower(strings.TrimPrefix(job.GetState().String(), "FEDERATED_JOB_STATE_"))
	if want := s.Expect.State; want != nil && state != *want {
		return fmt.Errorf("state is %s and not %s", state, *want)
	}
	return nil
}
