package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// step has the keys of all operations. An operation reads its own.
type step struct {
	Do     string    `json:"do"`
	Save   string    `json:"save"`
	Error  *expected `json:"error"`
	Within *int64    `json:"within"`
	// AtLeast is how long the step must take.
	AtLeast int64 `json:"at_least"`

	// client
	Gateways []json.RawMessage `json:"gateways"`
	Token    *string           `json:"token"`
	User     *string           `json:"user"`
	Cell     *string           `json:"cell"`
	Deadline int64             `json:"deadline"`
	Attempts int               `json:"attempts"`
	TLS      bool              `json:"tls"`
	DryRun   bool              `json:"dry_run"`

	// Jobs. To submit and build, job is an object, else a name.
	Job       json.RawMessage `json:"job"`
	RequestID string          `json:"request_id"`
	Count     *int64          `json:"count"`
	Expect    *struct {
		Count   *uint32 `json:"count"`
		Version *uint32 `json:"version"`
		State   *string `json:"state"`
		// Of a federated job.
		Revision *uint64 `json:"revision"`
		Changed  *bool   `json:"changed"`
		// Of a join token, and of keys of identities.
		Open *bool `json:"open"`
		Next *bool `json:"next"`
	} `json:"expect"`
	// For is what wait waits for, or the milliseconds of a pause.
	For     json.RawMessage `json:"for"`
	Outcome string          `json:"outcome"`
	What    string          `json:"what"`
	Page    uint32          `json:"page"`

	// Federated jobs.
	Call     string          `json:"call"`
	File     json.RawMessage `json:"file"`
	Stage    uint32          `json:"stage"`
	Revision uint64          `json:"revision"`

	// Join tokens, and keys of identities. Times are milliseconds.
	Node  string `json:"node"`
	Lasts int64  `json:"lasts"`
	Ahead int64  `json:"ahead"`

	// Watches.
	Watch string  `json:"watch"`
	Live  []int64 `json:"live"`
	// Weight and Labels are what each live endpoint has; absent: any.
	Weight      *uint32           `json:"weight"`
	Labels      map[string]string `json:"labels"`
	Resyncs     *bounds           `json:"resyncs"`
	Snapshots   *bounds           `json:"snapshots"`
	Absences    *bounds           `json:"absences"`
	Withdrawals *bounds           `json:"withdrawals"`

	// Tasks.
	Task     string   `json:"task"`
	Contains string   `json:"contains"`
	Follow   bool     `json:"follow"`
	Command  []string `json:"command"`
	Input    string   `json:"input"`
	Output   *string  `json:"output"`
	Exit     *int     `json:"exit"`
	Signal   int      `json:"signal"`

	// resolve
	Port string `json:"port"`

	// same
	Values []string `json:"values"`

	// together
	Steps []json.RawMessage `json:"steps"`

	// raw is the whole step, for a fault.
	raw map[string]any
}

// bounds are those of a number of items.
type bounds struct {
	Min *int `json:"min"`
	Max *int `json:"max"`
}

const withinDefault = 20 * time.Second

func (s *step) within() time.Duration {
	if s.Within == nil {
		return withinDefault
	}
	return time.Duration(*s.Within) * time.Millisecond
}

// text is a key that must be a string here.
func text(raw json.RawMessage, key string) (string, error) {
	var value string
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", fmt.Errorf("%s: %s; accepted: a text", key, raw)
	}
	return value, nil
}

// names are the values that steps have saved.
type names struct {
	mu     sync.Mutex
	values map[string]string
}

func (n *names) save(name, value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.values[name] = value
}

var namePattern = regexp.MustCompile(`\$\{([A-Za-z0-9_]+)\}`)

// expand replaces ${NAME} in all texts of a value. Other names stay: the task may have them.
func (n *names) expand(value any) any {
	switch value := value.(type) {
	case string:
		n.mu.Lock()
		defer n.mu.Unlock()
		return namePattern.ReplaceAllStringFunc(value, func(found string) string {
			if saved, is := n.values[found[2:len(found)-1]]; is {
				return saved
			}
			return found
		})
	case []any:
		for at, each := range value {
			value[at] = n.expand(each)
		}
	case map[string]any:
		for key, each := range value {
			value[key] = n.expand(each)
		}
	}
	return value
}

// readStep reads a step. A key that this runner does not know is an error, except in a fault.
func (n *names) readStep(raw json.RawMessage) (*step, error) {
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}
	// The steps within a step are expanded in their turn.
	inner, isNested := object["steps"]
	delete(object, "steps")
	n.expand(object)
	if isNested {
		object["steps"] = inner
	}
	if object["do"] == "fault" {
		return &step{Do: "fault", raw: object}, nil
	}
	expanded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var read step
	strict := json.NewDecoder(bytes.NewReader(expanded))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&read); err != nil {
		return nil, fmt.Errorf("step %s: %w", expanded, err)
	}
	return &read, nil
}

// step carries out a step, and compares its error with the expected one.
func (r *run) step(raw json.RawMessage) error {
	step, err := r.names.readStep(raw)
	if err != nil {
		return err
	}
	operation, known := operations[step.Do]
	if !known {
		return fmt.Errorf("operation %q is not known", step.Do)
	}
	begun := time.Now()
	err = operation(r, step)
	if took, least := time.Since(begun), time.Duration(step.AtLeast)*time.Millisecond; took < least {
		return fmt.Errorf("%s: it took %s, and not at least %s: %w", step.Do, took, least, err)
	}
	if step.Error == nil {
		if err != nil {
			return fmt.Errorf("%s: %w", step.Do, err)
		}
		return nil
	}
	if err == nil {
		return fmt.Errorf("%s: no error, and one was expected: %s", step.Do, step.Error)
	}
	return step.Error.compare(err)
}

// together carries out steps at the same time.
func (r *run) together(s *step) error {
	failures := make([]error, len(s.Steps))
	var wait sync.WaitGroup
	for at, raw := range s.Steps {
		wait.Go(func() {
			if err := r.step(raw); err != nil {
				failures[at] = fmt.Errorf("step %d of them: %w", at, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failures...)
}

// same compares values.
func (r *run) same(s *step) error {
	for _, value := range s.Values {
		if value != s.Values[0] {
			return fmt.Errorf("%q and %q differ", value, s.Values[0])
		}
	}
	return nil
}
