// Command runner carries out the scenarios of tests/clients with the library for Go. tests/clients/README.md defines
// the world, the scenarios and the operations.
//
// Usage: runner WORLD.json SCENARIOS.json [NAME…]
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// world is where the scenarios happen.
type world struct {
	Gateways []string `json:"gateways"`
	Direct   string   `json:"direct"`
	Web      string   `json:"web"`
	Token    string   `json:"token"`
	User     string   `json:"user"`
	Cell     string   `json:"cell"`
	Control  string   `json:"control"`
	TLS      struct {
		Gateway     string `json:"gateway"`
		CA          string `json:"ca"`
		Certificate string `json:"certificate"`
		Key         string `json:"key"`
	} `json:"tls"`
	Run string `json:"run"`
	ID  string `json:"id"`
}

// scenario is a list of steps. Each is an object that is read when its turn comes, since it may name saved values.
type scenario struct {
	Name  string            `json:"name"`
	Why   string            `json:"why"`
	Steps []json.RawMessage `json:"steps"`
}

// result is the line that the runner prints of a scenario.
type result struct {
	Scenario string `json:"scenario"`
	OK       bool   `json:"ok"`
	Step     *int   `json:"step,omitempty"`
	Error    string `json:"error,omitempty"`
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: runner WORLD.json SCENARIOS.json [NAME…]")
		os.Exit(2)
	}
	var world world
	if err := load(os.Args[1], &world); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	scenarios, err := loadScenarios(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !runAll(&world, scenarios, os.Args[3:]) {
		os.Exit(1)
	}
}

func load(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// loadScenarios reads a list of scenarios, or an object that has one.
func loadScenarios(path string) ([]scenario, error) {
	var raw json.RawMessage
	if err := load(path, &raw); err != nil {
		return nil, err
	}
	var list []scenario
	if json.Unmarshal(raw, &list) == nil {
		return list, nil
	}
	var within struct {
		Scenarios []scenario `json:"scenarios"`
	}
	err := json.Unmarshal(raw, &within)
	return within.Scenarios, err
}

// runAll runs the scenarios with these names, or all. It reports whether all have passed.
func runAll(world *world, scenarios []scenario, names []string) bool {
	passed := true
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	report := func(result result) {
		passed = passed && result.OK
		if err := output.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(scenarios, func(each scenario) bool { return each.Name == name }) {
			report(result{Scenario: name, Error: "there is no such scenario"})
		}
	}
	for _, scenario := range scenarios {
		if len(names) == 0 || slices.Contains(names, scenario.Name) {
			report(runOne(world, scenario))
		}
	}
	return passed
}

func runOne(world *world, scenario scenario) (done result) {
	done = result{Scenario: scenario.Name, OK: true}
	run, err := newRun(world)
	if err != nil {
		return result{Scenario: scenario.Name, Error: err.Error()}
	}
	defer func() {
		if err := run.cleanUp(); err != nil && done.OK {
			done = result{Scenario: scenario.Name, Error: "clean up: " + err.Error()}
		}
	}()
	for number, raw := range scenario.Steps {
		if err := run.step(raw); err != nil {
			return result{Scenario: scenario.Name, Step: &number, Error: err.Error()}
		}
	}
	return done
}
