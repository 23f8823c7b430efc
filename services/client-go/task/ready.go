package task

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// Readiness answers the HTTP probe of a job: 200 while the task is ready, else 503 with the reason. Borough publishes
// the endpoint of a task when its probe passes. The zero value is not ready. It is safe for concurrent use.
//
//	var ready task.Readiness
//	http.Handle("/ready", &ready)
//	... // load what the task needs
//	ready.Set()
type Readiness struct {
	// Nil: not ready, without a reason. Empty: ready.
	reason atomic.Pointer[string]
}

// Set makes the task ready.
func (r *Readiness) Set() { r.reason.Store(new(string)) }

// Unset makes the task not ready. A task that stays so is restarted, after as many probes as its job bears.
func (r *Readiness) Unset(reason string) {
	if reason == "" {
		r.reason.Store(nil)
		return
	}
	r.reason.Store(&reason)
}

// Ready reports whether the task is ready.
func (r *Readiness) Ready() bool {
	reason := r.reason.Load()
	return reason != nil && *reason == ""
}

// ServeHTTP answers the probe.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	reason := r.reason.Load()
	switch {
	case reason == nil:
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	case *reason != "":
		http.Error(w, "not ready: "+*reason, http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ready")
	}
}
