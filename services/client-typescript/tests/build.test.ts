import assert from "node:assert/strict";
import { test } from "node:test";
import { toJson } from "@bufbuild/protobuf";
import { InvalidError } from "../src/errors.js";
import { JobKind, type JobSpec, JobSpecSchema, RestartSpec_Mode } from "../src/gen/borough/v1/job_pb.js";
import { bytesOf, coresMillis, durationMs } from "../src/job/amounts.js";
import { defineJob } from "../src/job/build.js";
import type { JobOptions } from "../src/job/options.js";

const task = { command: ["serve"] };

/** The fields that are refused, of options that may be of no type. */
function refused(options: object): string[] {
  try {
    defineJob(options as JobOptions);
  } catch (error) {
    assert.ok(error instanceof InvalidError);
    for (const { field, accepted } of error.fields) assert.ok(field && accepted && error.message.includes(accepted));
    return error.fields.map(({ field }) => field);
  }
  return [];
}

test("a job has the defaults of job files", () => {
  const spec: JobSpec = defineJob({ name: "web", task });
  assert.deepEqual(toJson(JobSpecSchema, spec), {
    name: "web",
    kind: "JOB_KIND_SERVICE",
    priority: 200,
    count: 1,
    task: {
      command: ["serve"],
      resources: { cpuMillis: "100", memoryBytes: "67108864" },
      graceMs: "5000",
      log: { fileBytesMax: "10485760", filesMax: 3 },
      weight: 1,
    },
    restart: { mode: "ALWAYS", backoffInitialMs: "500", backoffMaxMs: "60000", resetAfterMs: "120000" },
  });
  const batch = defineJob({ name: "sum", kind: "batch", task });
  assert.deepEqual(
    [batch.kind, batch.priority, batch.restart?.mode, batch.restart?.attemptsMax],
    [JobKind.BATCH, 100, RestartSpec_Mode.ON_FAILURE, 3],
  );
  assert.equal(defineJob({ name: "logs", kind: "daemon", task }).count, 0);
  assert.deepEqual(defineJob({ name: "places", kind: "alloc_set", count: 3 }).task?.command, ["sleep", "infinity"]);
});

test("every field reaches the spec", () => {
  const spec = defineJob({
    name: "train",
    user: "bob",
    kind: "batch",
    priority: "production",
    gangTopology: { attribute: "rack", atMost: 2, prefer: true },
    roles: [{ name: "server" }, { name: "worker", count: 8, minMember: 6, arguments: ["--worker"], weight: 2 }],
    after: ["prepare", { job: "seed", condition: "finished" }],
    constraints: [{ attribute: "arch", operator: "in", values: ["amd64"], prefer: 10 }],
    spread: ["node.name", { attribute: "rack", weight: 70, maxSkew: 1 }],
    affinity: [{ apart: "node.name", jobs: [{ attribute: "app", operator: "in", values: ["cache"] }] }],
    tolerations: ["maintenance", { taint: "old", effect: "no_execute", evictAfter: "5m" }],
    restart: { mode: "on_failure", attempts: 7, backoff: "1s" },
    drainDelay: "2s",
    lostAfter: "45s",
    labels: { team: "web" },
    update: { canaries: 1, onFailure: "stop", resizeSignal: "SIGHUP" },
    preemption: { never: true, noticeMax: "10s", downMax: 1 },
    description: "trains",
    progressDeadline: "5m",
    task: {
      command: ["train"],
      environment: { A: "b" },
      resources: { cpu: "1.5", memory: "1.5Gi", diskRate: "10MiB/s", devices: { gpu: { count: 2, model: ["A100"] } } },
      ports: ["http", { name: "admin", number: 8081 }],
      health: { http: { port: "http" }, interval: "1s" },
      grace: "1m30s",
      helpers: [{ name: "migrate", when: "before", command: ["migrate"], cpu: 1, deadline: "2m" }],
      identities: ["vault", { name: "aws", audience: "https://sts.example.org", ttl: "10m" }],
      secrets: [
        { name: "TOKEN", source: "api/token" },
        { name: "KEY", source: "tls/key.pem", as: "file" },
      ],
    },
  });
  const { identities = [], secrets = [] } = spec.task ?? {};
  assert.deepEqual(
    identities.map(({ name, audience, ttlMs }) => [name, audience, ttlMs]),
    [
      ["vault", "vault", 3_600_000n],
      ["aws", "https://sts.example.org", 600_000n],
    ],
  );
  assert.deepEqual(
    secrets.map(({ name, source, form }) => [name, source, form]),
    [
      ["TOKEN", "api/token", 1],
      ["KEY", "tls/key.pem", 2],
    ],
  );
  assert.deepEqual([spec.count, spec.priority, spec.roles.map(({ minMember }) => minMember)], [9, 200, [1, 6]]);
  assert.deepEqual([spec.gangTopology?.domainsMin, spec.gangTopology?.domainsMax], [1, 2]);
  assert.deepEqual(
    spec.spread.map(({ weight }) => weight),
    [100, 70],
  );
  assert.deepEqual([spec.restart?.attemptsMax, spec.restart?.backoffInitialMs], [7, 1_000n]);
  const { resources, health, graceMs, deviceSelectors } = spec.task ?? {};
  assert.deepEqual(
    [resources?.cpuMillis, resources?.memoryBytes, resources?.deviceMillis],
    [1_500n, 1_610_612_736n, { gpu: 2_000n }],
  );
  assert.deepEqual(deviceSelectors?.gpu?.models, ["A100"]);
  assert.deepEqual(
    [health?.probe.case, health?.intervalMs, health?.timeoutMs, graceMs],
    ["http", 1_000n, 1_000n, 90_000n],
  );
});

test("short forms of job files are those of the long ones", () => {
  const constraints = [
    "rack in [r1, r2]",
    'rack not in ["r 3"] prefer 5',
    "arch == x86_64",
    "arch!=arm64",
    "cpu.count > 8",
    "ssd exists",
    "old absent prefer 50",
  ];
  const short = defineJob({
    name: "web",
    task: { ...task, ports: { http: "auto", admin: 8081 } },
    constraints,
    spread: { rack: 70, "node.name": 30 },
    affinity: [{ apart: "node.name", jobs: ["app == cache"] }],
  });
  const long = defineJob({
    name: "web",
    task: { ...task, ports: ["http", { name: "admin", number: 8081 }] },
    constraints: [
      { attribute: "rack", operator: "in", values: ["r1", "r2"] },
      { attribute: "rack", operator: "not_in", values: ["r 3"], prefer: 5 },
      { attribute: "arch", operator: "in", values: ["x86_64"] },
      { attribute: "arch", operator: "not_in", values: ["arm64"] },
      { attribute: "cpu.count", operator: "greater_than", values: [8] },
      { attribute: "ssd", operator: "exists" },
      { attribute: "old", operator: "absent", prefer: 50 },
    ],
    spread: [
      { attribute: "rack", weight: 70 },
      { attribute: "node.name", weight: 30 },
    ],
    affinity: [{ apart: "node.name", jobs: [{ attribute: "app", operator: "in", values: ["cache"] }] }],
  });
  assert.deepEqual(toJson(JobSpecSchema, short), toJson(JobSpecSchema, long));
  assert.deepEqual(refused({ name: "web", task, constraints: ["rack"] }), ["constraints[0]"]);
  assert.deepEqual(refused({ name: "web", task, spread: { rack: 0 } }), ["spread.rack.weight"]);
  assert.deepEqual(refused({ name: "web", task: { ...task, ports: { http: "any" } } }), ["task.ports.http.number"]);
});

test("an error names every field that is wrong, and what is accepted", () => {
  assert.deepEqual(refused({}), ["name", "task.command"]);
  const cases: [object, string[]][] = [
    [{ name: "Web", task }, ["name"]],
    [{ name: "a".repeat(64), task }, ["name"]],
    [{ name: "web", task, count: -1 }, ["count"]],
    [{ name: "web", task, count: 1.5 }, ["count"]],
    [{ name: "web", task, count: 100_001 }, ["count"]],
    [{ name: "web", task, count: "3" }, ["count"]],
    [{ name: "web", task, priority: 400 }, ["priority"]],
    [{ name: "web", task, priority: "urgent" }, ["priority"]],
    [{ name: "web", task, kind: "web" }, ["kind"]],
    [{ name: "web", task, replicas: 3 }, ["replicas"]],
    [{ name: "web", task: { command: [] } }, ["task.command"]],
    [{ name: "web", task: { command: "serve" } }, ["task.command"]],
    [{ name: "web", task: { ...task, resources: { cpu: 0 } } }, ["task.resources.cpu"]],
    [{ name: "web", task: { ...task, resources: { memory: "1KiB" } } }, ["task.resources.memory"]],
    [{ name: "web", task: { ...task, resources: { memory: "0.3" } } }, ["task.resources.memory"]],
    [{ name: "web", task: { ...task, ports: ["http", "http"] } }, ["task.ports[1].name"]],
    [{ name: "web", task: { ...task, ports: [{ name: "http", number: 80 }] } }, ["task.ports[0].number"]],
    [{ name: "web", task: { ...task, health: { http: { port: "http" } } } }, ["task.health.http.port"]],
    [{ name: "web", task: { ...task, health: {} } }, ["task.health"]],
    [{ name: "web", task: { ...task, grace: "5" } }, ["task.grace"]],
    [{ name: "web", task: { ...task, grace: "2h" } }, ["task.grace"]],
    [{ name: "web", task: { ...task, weight: 256 } }, ["task.weight"]],
    [{ name: "web", task: { ...task, environment: { "A=": "b" } } }, ['task.environment["A="]']],
    [{ name: "web", task, labels: { ü: "b" } }, ['labels["ü"]']],
    [{ name: "web", task, count: 2, minMember: 3 }, ["minMember"]],
    [{ name: "web", task, count: 2, overrides: { 2: { weight: 3 } } }, ["overrides.2"]],
    [{ name: "web", kind: "daemon", count: 2, task }, ["count"]],
    [
      { name: "web", task, constraints: [{ attribute: "a", operator: "exists", values: ["x"] }] },
      ["constraints[0].values"],
    ],
    [{ name: "web", task, description: "two\nlines" }, ["description"]],
    [{ name: "web", task, count: -1, priority: 400 }, ["count", "priority"]],
  ];
  for (const [options, fields] of cases) assert.deepEqual(refused(options), fields, JSON.stringify(options));
  const message = /count: -1; accepted: a whole number from 0 to 100000/;
  assert.throws(() => defineJob({ name: "web", task, count: -1 }), message);
});

test("amounts are read exactly, or not at all", () => {
  assert.deepEqual(["2", "0.5", "500m", 0.1, "1.0005"].map(coresMillis), [2_000, 500, 500, 100, undefined]);
  assert.deepEqual(
    ["64MiB", "64Mi", "512k", "1.5G", "0.5", "x"].map((text) => bytesOf(text)),
    [67_108_864, 67_108_864, 512_000, 1_500_000_000, undefined, undefined],
  );
  assert.equal(bytesOf("10MiB/s", true), 10_485_760);
  assert.equal(bytesOf("10MiB/s"), undefined);
  assert.deepEqual(["250ms", "5s", "1m30s", "2h", "1d", "5", "", "5s!"].map(durationMs), [
    250,
    5_000,
    90_000,
    7_200_000,
    86_400_000,
    undefined,
    undefined,
    undefined,
  ]);
});
