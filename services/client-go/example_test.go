package borough_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	borough "example.invalid/borough/services/client-go"
)

func ExampleClient_RunJob() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	client, err := borough.New(borough.Config{
		Gateways: []string{"gate-1:7400", "gate-2:7400"}, User: "ann", Cell: "alpha", TokenFile: "ann.token",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	spec, err := borough.NewService("web", "serve", "--port", "${PORT_HTTP}").
		Count(3).CPUMillis(250).MemoryBytes(128*borough.MiB).
		Ports("http").CheckHTTP("http", "/ready").SurgeMax(1).
		Build()
	if err != nil {
		log.Fatal(err)
	}
	waited, err := client.RunJob(ctx, spec, borough.WaitOptions{})
	var failed *borough.WaitError
	if errors.As(err, &failed) {
		log.Fatalf("the job is %s: %s", failed.Outcome, failed.Why)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, endpoint := range waited.Endpoints {
		fmt.Println(endpoint.GetName(), endpoint.GetHost(), endpoint.GetPorts()[0].GetNumber())
	}
}

func ExampleClient_SubmitJob_errors() {
	var client *borough.Client
	spec, err := borough.NewBatch("nightly", "report").Build()
	if err != nil {
		log.Fatal(err)
	}
	// An id that the caller keeps makes the change safe to repeat, also after a crash of the caller.
	id := borough.NewRequestID()
	_, err = client.SubmitJob(context.Background(), spec, borough.WithRequestID(id))
	var refused *borough.RefusedError
	switch {
	case errors.As(err, &refused):
		for _, field := range refused.Fields {
			fmt.Println(field.Field, field.Description)
		}
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("repeat it with the same id:", id)
	}
}

func ExampleClient_WatchEndpoints() {
	var client *borough.Client
	var table borough.EndpointTable
	for item, err := range client.WatchEndpoints(context.Background(), borough.JobRef{Name: "web"}, nil) {
		if err != nil {
			log.Fatal(err)
		}
		if table.Apply(item) {
			fmt.Println(len(table.Endpoints()), "endpoints")
		}
	}
}

func ExampleClient_TaskLogs() {
	var client *borough.Client
	task := borough.JobRef{Name: "web"}.Task(0)
	for part, err := range client.TaskLogs(context.Background(), task, borough.LogQuery{Follow: true, TailLines: 10}) {
		if err != nil {
			log.Fatal(err)
		}
		os.Stdout.Write(part.Data)
	}
}

func ExampleClient_Exec() {
	var client *borough.Client
	task := borough.JobRef{Name: "web"}.Task(0)
	streams := borough.ExecIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	exit, err := client.Exec(context.Background(), task, []string{"sh", "-c", "cat > /tmp/input"}, streams)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(exit)
}

func ExampleClient_Tasks() {
	var client *borough.Client
	for task, err := range client.Tasks(context.Background(), borough.TaskFilter{Job: "web"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(task.GetIndex(), task.GetNode(), task.GetState())
	}
}
