// Command submit runs a small web service, waits until it is healthy, and shows where it answers.
//
// Usage: submit [NAME [COUNT]], with BOROUGH_GATEWAY, BOROUGH_TOKEN_FILE, BOROUGH_USER and BOROUGH_CELL.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"time"

	borough "example.invalid/borough/services/client-go"
)

func main() {
	log.SetFlags(0)
	name, count := "web", 2
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if len(os.Args) > 2 {
		var err error
		if count, err = strconv.Atoi(os.Args[2]); err != nil {
			log.Fatalf("COUNT: %q; accepted: a whole number", os.Args[2])
		}
	}
	if err := submit(name, count); err != nil {
		log.Fatal(err)
	}
}

func submit(name string, count int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()

	client, err := borough.New(borough.ConfigFromEnvironment())
	if err != nil {
		return err
	}
	defer client.Close()

	spec, err := borough.NewService(name, "python3", "-m", "http.server", "${PORT_HTTP}").
		Count(count).CPUMillis(50).MemoryBytes(64*borough.MiB).
		Ports("http").CheckHTTP("http", "/").
		Label("app", name).
		Build()
	if err != nil {
		return err
	}
	waited, err := client.RunJob(ctx, spec, borough.WaitOptions{OnProgress: func(state string) { log.Print(state) }})
	if failed := new(borough.WaitError); errors.As(err, &failed) && failed.Task != nil {
		// The last lines of the attempt that failed say more.
		task := borough.JobRef{Name: name}.Task(failed.Task.GetIndex())
		exit := failed.Task.GetExit()
		query := borough.LogQuery{TailLines: 10, Incarnation: exit.GetIncarnation(), Helper: exit.GetHelper()}
		for part, err := range client.TaskLogs(ctx, task, query) {
			if err != nil {
				break
			}
			os.Stderr.Write(part.Data)
		}
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", waited.Job.GetName(), waited.Outcome)
	for _, endpoint := range waited.Endpoints {
		for _, port := range endpoint.GetPorts() {
			fmt.Printf("%s  %s  %s:%d\n", endpoint.GetName(), port.GetName(), endpoint.GetHost(), port.GetNumber())
		}
	}
	return nil
}
