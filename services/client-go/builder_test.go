package borough

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.invalid/borough/services/client-go/boroughpb"
)

func TestAServiceHasTheDefaultsOfAJobFile(t *testing.T) {
	spec, err := NewService("web", "serve", "${PORT_HTTP}").Ports("http").CheckHTTP("http", "/ready").Build()
	if err != nil {
		t.Fatal(err)
	}
	want := &JobSpec{
		Name: "web", Kind: pb.JobKind_JOB_KIND_SERVICE, Priority: 200, Count: 1,
		Restart: &pb.RestartSpec{Mode: pb.RestartSpec_ALWAYS, BackoffInitialMs: 500, BackoffMaxMs: 60_000, ResetAfterMs: 120_000},
		Task: &pb.TaskSpec{
			Command: []string{"serve", "${PORT_HTTP}"}, Resources: &pb.Resources{CpuMillis: 100, MemoryBytes: 64 << 20},
			Ports: []*pb.PortSpec{{Name: "http"}}, GraceMs: 5000, Weight: 1,
			Log: &pb.LogSpec{FileBytesMax: 10 << 20, FilesMax: 3},
			Health: &pb.HealthCheck{
				Probe:      &pb.HealthCheck_Http{Http: &pb.HttpProbe{Port: "http", Path: "/ready"}},
				IntervalMs: 5000, TimeoutMs: 2000, FailuresMax: 3, InitialGraceMs: 10_000,
			},
		},
	}
	if !proto.Equal(spec, want) {
		t.Errorf("%v\nand not\n%v", spec, want)
	}
}

func TestBatchWorkHasOtherDefaults(t *testing.T) {
	spec, err := NewBatch("work", "run").Build()
	if err != nil {
		t.Fatal(err)
	}
	if spec.GetKind() != pb.JobKind_JOB_KIND_BATCH || spec.GetPriority() != 100 ||
		spec.GetRestart().GetMode() != pb.RestartSpec_ON_FAILURE || spec.GetRestart().GetAttemptsMax() != 3 {
		t.Error(spec)
	}
}

func TestEachMethodSetsItsField(t *testing.T) {
	spec, err := NewService("web", "serve").User("ann").Count(0).Band(pb.Band_BAND_MONITORING).CPUMillis(50).
		MemoryBytes(32*MiB).Devices("gpu", 500).Ports("http", "admin").FixedPort("raft", 8000).Env("A", "b").
		WorkingDirectory("/srv").Label("app", "web").Description("the shop").MaxAttempts(7).
		Restart(pb.RestartSpec_NEVER).Grace(2*time.Second).DrainDelay(time.Second).ProgressDeadline(time.Minute).
		UnavailableMax(2).SurgeMax(1).Canaries(0).Weight(9).CheckTCP("raft").Require("rack", "r1", "r2").Spread("node.name").After("seed").
		Customize(func(spec *JobSpec) { spec.Queue = "research" }).Build()
	if err != nil {
		t.Fatal(err)
	}
	task := spec.GetTask()
	for _, test := range []struct {
		field    string
		got, set any
	}{
		{"user", spec.GetUser(), "ann"}, {"count", spec.GetCount(), uint32(0)}, {"priority", spec.GetPriority(), uint32(300)},
		{"cpu", task.GetResources().GetCpuMillis(), uint64(50)}, {"memory", task.GetResources().GetMemoryBytes(), uint64(32 << 20)},
		{"gpu", task.GetResources().GetDeviceMillis()["gpu"], uint64(500)}, {"ports", len(task.GetPorts()), 3},
		{"raft", task.GetPorts()[2].GetNumber(), uint32(8000)}, {"environment", task.GetEnvironment()["A"], "b"},
		{"directory", task.GetWorkingDirectory(), "/srv"}, {"labels", spec.GetLabels()["app"], "web"},
		{"description", spec.GetDescription(), "the shop"}, {"attempts", spec.GetRestart().GetAttemptsMax(), uint32(7)},
		{"restart", spec.GetRestart().GetMode(), pb.RestartSpec_NEVER}, {"grace", task.GetGraceMs(), uint64(2000)},
		{"drain delay", spec.GetDrainDelayMs(), uint64(1000)}, {"progress", spec.GetProgressDeadlineMs(), uint64(60_000)},
		{"weight", task.GetWeight(), uint32(9)}, {"probe", task.GetHealth().GetTcp().GetPort(), "raft"},
		{"constraint", spec.GetConstraints()[0].GetValues()[1], "r2"}, {"spread", spec.GetSpread()[0].GetAttribute(), "node.name"},
		{"unavailable", spec.GetUpdate().GetUnavailableMax(), uint32(2)}, {"surge", spec.GetUpdate().GetSurgeMax(), uint32(1)},
		{"healthy after", spec.GetUpdate().GetHealthyAfterMs(), uint64(10_000)}, {"failures", spec.GetUpdate().GetFailuresMax(), uint32(2)},
		{"after", spec.GetAfter()[0].GetJob(), "seed"}, {"queue", spec.GetQueue(), "research"},
	} {
		if test.got != test.set {
			t.Errorf("%s: %v and not %v", test.field, test.got, test.set)
		}
	}
}

func TestWhatIsWrongIsNamedWithWhatIsAccepted(t *testing.T) {
	service := func() *JobBuilder { return NewService("web", "serve") }
	for _, test := range []struct {
		job   *JobBuilder
		field string
		value string
	}{
		{NewService("A B", "serve"), "name", `"A B"`},
		{NewService("web-", "serve"), "name", `"web-"`},
		{NewService("9web", "serve"), "name", `"9web"`},
		{NewService(strings.Repeat("a", 64), "serve"), "name", `"` + strings.Repeat("a", 64) + `"`},
		{NewService("web"), "task.command", "[]"},
		{NewService("web", ""), "task.command", `[""]`},
		{NewService("web", "a", "b\x00"), "task.command[1]", `"b\x00"`},
		{NewService("web", "serve", "${NOPE}"), "task.command[1]", "${NOPE}"},
		{service().User("Ann"), "user", `"Ann"`},
		{service().Count(-1), "count", "-1"},
		{service().Count(100_001), "count", "100001"},
		{service().Priority(400), "priority", "400"},
		{service().Band(9), "priority", "9"},
		{service().CPUMillis(0), "task.resources.cpu", "0"},
		{service().CPUMillis(-5), "task.resources.cpu", "-5"},
		{service().MemoryBytes(5), "task.resources.memory", "5"},
		{service().Devices("gpu", 1500), `task.resources.devices["gpu"]`, "1500"},
		{service().Ports("http", "http"), "task.ports[1].name", `"http"`},
		{service().Ports("HTTP"), "task.ports[0].name", `"HTTP"`},
		{service().FixedPort("http", 80), "task.ports[0].number", "80"},
		{service().FixedPort("a", 8000).FixedPort("b", 8000), "task.ports[1].number", "8000"},
		{service().Env("9A", "x"), `task.environment["9A"]`, `"9A"`},
		{service().Env("PORT_X", "x"), `task.environment["PORT_X"]`, `"PORT_X"`},
		{service().Env("A", "\x00"), `task.environment["A"]`, `"\x00"`},
		{service().WorkingDirectory("srv"), "task.working_directory", `"srv"`},
		{service().Label("*", "x"), `labels["*"]`, `"*"`},
		{service().Label("a", "x\ny"), `labels["a"]`, `"x\ny"`},
		{service().Description(strings.Repeat("x", 513)), "description", `"` + strings.Repeat("x", 80) + `"...`},
		{service().Grace(2 * time.Hour), "task.grace_ms", "7200000 ms"},
		{service().Grace(time.Microsecond), "task.grace_ms", "1µs"},
		{service().DrainDelay(-time.Second), "drain_delay_ms", "-1s"},
		{service().ProgressDeadline(time.Millisecond), "progress_deadline_ms", "1 ms"},
		{service().SurgeMax(-1), "update.surge_max", "-1"},
		{service().Weight(256), "task.weight", "256"},
		{service().MaxAttempts(-1), "restart.attempts_max", "-1"},
		{service().CheckHTTP("http", "/"), "task.health.http.port", `"http"`},
		{service().Ports("http").CheckHTTP("http", "ready"), "task.health.http.path", `"ready"`},
		{service().Ports("http").CheckTCP("admin"), "task.health.tcp.port", `"admin"`},
		{service().CheckCommand(), "task.health.command", "[]"},
		{service().After("A"), "after[0].job", `"A"`},
	} {
		_, err := test.job.Build()
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", test.field, err)
			continue
		}
		found := false
		for _, field := range invalid.Fields {
			found = found || (field.Field == test.field && field.Value == test.value && field.Accepted != "")
		}
		if !found {
			t.Errorf("%s %s is not in %v", test.field, test.value, err)
		}
	}
}

func TestEverythingThatIsWrongComesAtOnce(t *testing.T) {
	_, err := NewService("A", "").Count(-1).Weight(0).Build()
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 4 || strings.Count(err.Error(), "accepted: ") != 4 {
		t.Fatal(err)
	}
}

func TestVariablesOfTheTaskAndPlainBracesAreFine(t *testing.T) {
	_, err := NewService("web", "a", "${PORT}", "${PORT_MY_PORT}", "${X}", "${BOROUGH_JOB}", "${HOST}", "$${ANY}", "${", "${a b}").
		Ports("my-port").Env("X", "y").Build()
	if err != nil {
		t.Fatal(err)
	}
}

func TestABuiltSpecIsACopy(t *testing.T) {
	builder := NewService("web", "serve")
	first, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builder.Env("A", "b").Count(3).Build(); err != nil {
		t.Fatal(err)
	}
	if first.GetCount() != 1 || len(first.GetTask().GetEnvironment()) != 0 {
		t.Error("a later change of the builder has changed it")
	}
}
