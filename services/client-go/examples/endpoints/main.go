// Command endpoints follows the endpoints of a job, as a load balancer does: it prints each change and what is present.
//
// Usage: endpoints JOB, with BOROUGH_GATEWAY, BOROUGH_TOKEN_FILE, BOROUGH_USER and BOROUGH_CELL. Ctrl-C ends it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	borough "example.invalid/borough/services/client-go"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: endpoints JOB")
	}
	if err := follow(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func follow(job string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := borough.New(borough.ConfigFromEnvironment())
	if err != nil {
		return err
	}
	defer client.Close()

	var table borough.EndpointTable
	for item, err := range client.WatchEndpoints(ctx, borough.JobRef{Name: job}, nil) {
		if err != nil {
			return err
		}
		switch item := item.(type) {
		case borough.EndpointSnapshot:
			fmt.Printf("snapshot of %d endpoints\n", len(item.Endpoints))
		case borough.EndpointPublished:
			fmt.Printf("published %s, attempt %d\n", item.Endpoint.GetName(), item.Endpoint.GetIncarnation())
		case borough.EndpointWithdrawn:
			fmt.Printf("withdrawn %s, attempt %d\n", item.Job.Task(item.Index), item.Incarnation)
		case borough.Absent:
			log.Printf("%s; the endpoints stay as they are", item.Err)
		case borough.Resync:
			log.Printf("%s; a new snapshot follows", item.Why)
		}
		if table.Apply(item) {
			for _, endpoint := range table.Endpoints() {
				for _, port := range endpoint.GetPorts() {
					fmt.Printf("  %s %s %s:%d\n", endpoint.GetName(), port.GetName(), endpoint.GetHost(), port.GetNumber())
				}
			}
		}
	}
	return nil
}
