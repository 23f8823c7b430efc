package task_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"

	"example.invalid/borough/services/client-go/task"
)

func ExampleSelf() {
	self, err := task.Self()
	if err != nil {
		log.Fatal(err)
	}
	port, err := self.Port("http")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("I am", self.Name(), "on", self.Node)
	var ready task.Readiness
	http.Handle("/ready", &ready)
	go func() {
		// Load what the task needs, and then:
		ready.Set()
	}()
	log.Fatal(http.ListenAndServe(net.JoinHostPort(self.Host, strconv.Itoa(port)), nil))
}
