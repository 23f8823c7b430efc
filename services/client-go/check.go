package borough

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

// What the fields of a job accept. A gateway checks the same, and more.
const (
	countMax         = 100_000
	portsMax         = 32
	labelsMax        = 64
	delayMillisMax   = 3_600_000
	countAccepted    = "0 to 100000"
	priorityAccepted = "0 to 399"
	cpuAccepted      = "at least one thousandth of a core"
	memoryAccepted   = "at least 1MiB"
	deviceAccepted   = "whole devices, or a share of one such as 500"
	portAccepted     = "1024 to 65535 (lower ones are reserved), or none: the scheduler hands one out"
	weightAccepted   = "1 to 255"
	nameAccepted     = "1 to 63 of a-z, 0-9 and '-', starting with a letter and not ending with '-'"
	variableAccepted = "letters, digits and '_', not starting with a digit, nor with BOROUGH_ or PORT_"
	keyAccepted      = "1 to 128 of a-z, A-Z, 0-9, '.', '_', '/' and '-', starting with a letter or digit"
)

var (
	namePattern      = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	variablePattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	keyPattern       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)
	pathPattern      = regexp.MustCompile(`^/[!-~]*$`)
	referencePattern = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

func text[T int | int64 | uint32 | uint64](value T) string { return fmt.Sprint(value) }

// quoted is a value as an error shows it.
func quoted(value string) string {
	const shown = 80
	if runes := []rune(value); len(runes) > shown {
		return strconv.Quote(string(runes[:shown])) + "..."
	}
	return strconv.Quote(value)
}

// checkSpec refuses what the spec alone decides, as far as the builder sets it.
func checkSpec(invalid *invalidFields, spec *JobSpec) {
	checkName(invalid, "name", spec.GetName())
	if spec.GetUser() != "" {
		checkName(invalid, "user", spec.GetUser())
	}
	invalid.require(spec.GetCount() <= countMax, "count", text(spec.GetCount()), countAccepted)
	invalid.require(spec.GetPriority() <= 399, "priority", text(spec.GetPriority()), priorityAccepted)
	checkDelay(invalid, "drain_delay_ms", spec.GetDrainDelayMs(), 0, delayMillisMax)
	if spec.ProgressDeadlineMs != nil {
		checkDelay(invalid, "progress_deadline_ms", spec.GetProgressDeadlineMs(), 1000, 24*delayMillisMax)
	}
	checkLine(invalid, "description", spec.GetDescription(), 512)
	checkLabels(invalid, spec.GetLabels())
	for at, after := range spec.GetAfter() {
		checkName(invalid, fmt.Sprintf("after[%d].job", at), after.GetJob())
	}
	checkTask(invalid, spec.GetTask())
	if len(spec.GetOverrides()) == 0 && len(spec.GetRoles()) == 0 && spec.GetAllocSet() == "" {
		checkReferences(invalid, spec.GetTask())
	}
}

func checkName(invalid *invalidFields, field, name string) {
	invalid.require(namePattern.MatchString(name), field, quoted(name), nameAccepted)
}

func checkDelay(invalid *invalidFields, field string, millis, least, most uint64) {
	invalid.require(least <= millis && millis <= most, field, text(millis)+" ms",
		fmt.Sprintf("%d ms to %d ms", least, most))
}

// checkLine refuses a text that is long, or that moves other text where it is shown.
func checkLine(invalid *invalidFields, field, value string, most int) {
	moves := strings.ContainsFunc(value, func(each rune) bool {
		return unicode.IsControl(each) || unicode.Is(unicode.Bidi_Control, each) || each == '\u2028' || each == '\u2029'
	})
	invalid.require(len(value) <= most && !moves, field, quoted(value),
		fmt.Sprintf("at most %d bytes on one line, without control or direction characters", most))
}

func checkLabels(invalid *invalidFields, labels map[string]string) {
	invalid.require(len(labels) <= labelsMax, "labels", text(len(labels))+" entries", fmt.Sprintf("at most %d", labelsMax))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		field := "labels[" + quoted(key) + "]"
		invalid.require(keyPattern.MatchString(key), field, quoted(key), keyAccepted)
		checkLine(invalid, field, labels[key], 256)
	}
}

func checkTask(invalid *invalidFields, task *pb.TaskSpec) {
	checkCommand(invalid, "task.command", task.GetCommand())
	for _, name := range slices.Sorted(maps.Keys(task.GetEnvironment())) {
		field := "task.environment[" + quoted(name) + "]"
		reserved := strings.HasPrefix(name, "BOROUGH_") || strings.HasPrefix(name, "PORT_")
		invalid.require(variablePattern.MatchString(name) && !reserved, field, quoted(name), variableAccepted)
		checkArgument(invalid, field, task.GetEnvironment()[name])
	}
	if path := task.WorkingDirectory; path != nil {
		fine := strings.HasPrefix(*path, "/") && !strings.Contains(*path, "\x00")
		invalid.require(fine, "task.working_directory", quoted(*path), "an absolute path")
	}
	resources := task.GetResources()
	cpu, memory := resources.GetCpuMillis(), resources.GetMemoryBytes()
	invalid.require(cpu > 0, "task.resources.cpu", text(cpu), cpuAccepted)
	invalid.require(memory >= MiB, "task.resources.memory", text(memory), memoryAccepted)
	for _, kind := range slices.Sorted(maps.Keys(resources.GetDeviceMillis())) {
		millis := resources.GetDeviceMillis()[kind]
		fine := millis > 0 && (millis <= 1000 || millis%1000 == 0)
		invalid.require(fine, "task.resources.devices["+quoted(kind)+"]", text(millis), deviceAccepted)
	}
	checkPorts(invalid, task.GetPorts())
	checkHealth(invalid, task)
	checkDelay(invalid, "task.grace_ms", task.GetGraceMs(), 0, delayMillisMax)
	weight := task.GetWeight()
	invalid.require(1 <= weight && weight <= 255, "task.weight", text(weight), weightAccepted)
}

func checkCommand(invalid *invalidFields, field string, command []string) {
	invalid.require(len(command) > 0 && command[0] != "", field, fmt.Sprintf("%q", command), "a program and its arguments")
	for at, argument := range command {
		checkArgument(invalid, fmt.Sprintf("%s[%d]", field, at), argument)
	}
}

func checkArgument(invalid *invalidFields, field, value string) {
	invalid.require(!strings.Contains(value, "\x00"), field, quoted(value), "a text without NUL characters")
}

func checkPorts(invalid *invalidFields, ports []*pb.PortSpec) {
	invalid.require(len(ports) <= portsMax, "task.ports", text(len(ports))+" ports", fmt.Sprintf("at most %d", portsMax))
	names, numbers := map[string]bool{}, map[uint32]bool{}
	for at, port := range ports {
		field := fmt.Sprintf("task.ports[%d].name", at)
		checkName(invalid, field, port.GetName())
		invalid.require(!names[port.GetName()], field, quoted(port.GetName()), "each name once")
		names[port.GetName()] = true
		if port.Number == nil {
			continue
		}
		field, number := fmt.Sprintf("task.ports[%d].number", at), port.GetNumber()
		invalid.require(1024 <= number && number <= 65535, field, text(number), portAccepted)
		invalid.require(!numbers[number], field, text(number), "each number once")
		numbers[number] = true
	}
}

func checkHealth(invalid *invalidFields, task *pb.TaskSpec) {
	switch probe := task.GetHealth().GetProbe().(type) {
	case *pb.HealthCheck_Http:
		checkProbePort(invalid, "task.health.http.port", probe.Http.GetPort(), task.GetPorts())
		invalid.require(pathPattern.MatchString(probe.Http.GetPath()), "task.health.http.path", quoted(probe.Http.GetPath()),
			"a path such as /healthz, in printable ASCII without spaces")
	case *pb.HealthCheck_Tcp:
		checkProbePort(invalid, "task.health.tcp.port", probe.Tcp.GetPort(), task.GetPorts())
	case *pb.HealthCheck_Command:
		checkCommand(invalid, "task.health.command", probe.Command.GetCommand())
	}
}

func checkProbePort(invalid *invalidFields, field, port string, ports []*pb.PortSpec) {
	accepted, known := "a port of the task, which has none", false
	if len(ports) > 0 {
		names := make([]string, len(ports))
		for at, each := range ports {
			names[at] = each.GetName()
		}
		accepted, known = "one of the task's ports: "+strings.Join(names, ", "), slices.Contains(names, port)
	}
	invalid.require(known, field, quoted(port), accepted)
}

// checkReferences refuses a ${NAME} in the command that the task does not have: each of its starts would fail.
func checkReferences(invalid *invalidFields, task *pb.TaskSpec) {
	known := map[string]bool{"PATH": true, "HOME": true, "HOST": true, "PORT": len(task.GetPorts()) > 0}
	for _, gpus := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} {
		known[gpus] = true
	}
	for name := range task.GetEnvironment() {
		known[name] = true
	}
	for _, port := range task.GetPorts() {
		known[PortVariable(port.GetName())] = true
	}
	for at, argument := range task.GetCommand() {
		for _, found := range referencePattern.FindAllStringSubmatch(argument, -1) {
			name := found[1]
			// $${NAME} is a plain ${NAME}.
			plain := strings.HasPrefix(found[0], "$$")
			invalid.require(plain || known[name] || strings.HasPrefix(name, "BOROUGH_"),
				fmt.Sprintf("task.command[%d]", at), "${"+name+"}", "a variable of the task: of its environment, or of a port")
		}
	}
}

// PortVariable is the variable in which a task finds the number of a port: PORT_ and the port's name in capitals, with
// '_' for '-'.
func PortVariable(port string) string {
	return "PORT_" + strings.ToUpper(strings.ReplaceAll(port, "-", "_"))
}
