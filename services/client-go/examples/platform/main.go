// Command platform is a small platform: it keeps the count of each job by a rule that stands in a label of the job.
//
// A job with the label platform.day has that many tasks from 8 to 20 o'clock, and with platform.night the rest of the
// time. The platform follows the jobs of its user. So it corrects a count at once when somebody else changes it.
//
// Usage: platform [HOUR], with BOROUGH_GATEWAY, BOROUGH_TOKEN_FILE, BOROUGH_USER and BOROUGH_CELL. HOUR
// replaces the clock, to try it.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	borough "example.invalid/borough/services/client-go"
	pb "example.invalid/borough/services/client-go/boroughpb"
)

// How often the clock is looked at.
const interval = 30 * time.Second

func main() {
	log.SetFlags(0)
	hour := func() int { return time.Now().Hour() }
	if len(os.Args) > 1 {
		fixed, err := strconv.Atoi(os.Args[1])
		if err != nil || fixed < 0 || fixed > 23 {
			log.Fatalf("HOUR: %q; accepted: 0 to 23", os.Args[1])
		}
		hour = func() int { return fixed }
	}
	client, err := borough.New(borough.ConfigFromEnvironment())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	platform := platform{client, hour}
	for ctx.Err() == nil {
		if err := platform.run(ctx); err != nil && ctx.Err() == nil {
			log.Print(err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

type platform struct {
	client *borough.Client
	hour   func() int
}

// run lists the jobs and follows their changes, until it is time to look at the clock or the watch must begin again.
func (p *platform) run(ctx context.Context) error {
	round, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	// The cursor comes first: the watch then has every change since before the list.
	_, cursor, err := p.client.GetCell(ctx)
	if err != nil {
		return err
	}
	for job, err := range p.client.Jobs(ctx, borough.JobFilter{User: p.client.User()}) {
		if err != nil {
			return err
		}
		if err := p.keep(ctx, job); err != nil {
			return err
		}
	}
	filter := &borough.WatchFilter{User: p.client.User(), Jobs: true}
	for item, err := range p.client.WatchCell(round, filter, cursor) {
		if err != nil {
			return err
		}
		change, is := item.(borough.CellChange)
		if !is || change.GetJob() == nil {
			continue
		}
		if err := p.keep(ctx, change.GetJob()); err != nil {
			return err
		}
	}
	return nil
}

// keep scales a job if its count is not what its rule says.
func (p *platform) keep(ctx context.Context, job *borough.Job) error {
	count, ruled := wanted(job.GetLabels(), p.hour())
	if !ruled || job.GetState() != pb.JobState_JOB_STATE_RUNNING || job.GetCount() == count {
		return nil
	}
	ref := borough.JobRef{User: job.GetUser(), Name: job.GetName()}
	_, err := p.client.ScaleJob(ctx, ref, count, borough.IfJob(job.GetId()))
	var refused *borough.RefusedError
	switch {
	case err == nil:
		log.Printf("%s: %d to %d tasks", ref, job.GetCount(), count)
		return nil
	case errors.As(err, &refused) && (refused.Code == codes.FailedPrecondition || refused.Code == codes.NotFound):
		// The job is over, or another one has its name. The watch says what is next.
		log.Printf("%s: %s", ref, refused)
		return nil
	default:
		return err
	}
}

// wanted is the count that the labels of a job ask for at an hour. Without a rule it is up to others.
func wanted(labels map[string]string, hour int) (count uint32, ruled bool) {
	label := "platform.night"
	if 8 <= hour && hour < 20 {
		label = "platform.day"
	}
	number, err := strconv.ParseUint(labels[label], 10, 32)
	return uint32(number), err == nil
}
