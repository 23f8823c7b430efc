/** Builds the spec of a job: checks what a caller gives, and fills in the defaults of job files. Pure. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  After_Condition,
  type GangTopologySchema,
  JobKind,
  type JobSpec,
  JobSpecSchema,
  type Preemption,
  PreemptionSchema,
  RestartSpec_Mode,
  type RestartSpecSchema,
  type RoleSchema,
  UpdateSpec_OnFailure,
  UpdateSpec_Resize,
  UpdateSpec_ResizeSignal,
  type UpdateSpecSchema,
} from "../gen/borough/v1/job_pb.js";
import { type Bounds, Fields, optional, Problems } from "./fields.js";
import type { JobOptions } from "./options.js";
import { affinityOf, constraintOf, isKey, spreadsOf, tolerationOf } from "./placement.js";
import { overrideOf, taskSpecOf } from "./task.js";

const HOUR_MS = 3_600_000;
const DELAY: Bounds = { least: 0, most: HOUR_MS };
const DAY: Bounds = { least: 1_000, most: 24 * HOUR_MS };
/** The most tasks of a job. */
const COUNT: Bounds = { least: 0, most: 100_000 };
const KINDS = {
  service: JobKind.SERVICE,
  batch: JobKind.BATCH,
  daemon: JobKind.DAEMON,
  alloc_set: JobKind.ALLOC_SET,
};
const BANDS: Record<string, number> = { best_effort: 0, batch: 100, production: 200, monitoring: 300 };
const MODES = {
  always: RestartSpec_Mode.ALWAYS,
  on_failure: RestartSpec_Mode.ON_FAILURE,
  never: RestartSpec_Mode.NEVER,
};
const PRIORITY_ACCEPTED = `a whole number from 0 to 399, or ${Object.keys(BANDS).join(", ")}`;
const AFTER_CONDITIONS = { finished: After_Condition.FINISHED, succeeded: After_Condition.SUCCEEDED };

/**
 * The spec of a job, with the defaults of job files. What only the cell can tell, such as an unknown queue, the gateway
 * checks when the job is submitted or planned.
 *
 * @throws {@link InvalidError} that names every invalid field, its value and what is accepted.
 */
export function defineJob(options: JobOptions): JobSpec {
  const problems = new Problems();
  const job = new Fields(problems, "", options);
  const kind = job.word("kind", KINDS) ?? JobKind.SERVICE;
  const isBatch = kind === JobKind.BATCH;
  const name = job.name("name");
  if (job.raw("name") === undefined) job.refuse("name", "a name such as web");
  const roles = job.list("roles", 16, (item, path) => roleOf(new Fields(problems, path, item)));
  const ofRoles = roles.length > 0 ? roles.reduce((sum, role) => sum + (role.count ?? 0), 0) : undefined;
  const count = job.whole("count", COUNT) ?? ofRoles ?? (kind === JobKind.DAEMON ? 0 : 1);
  if (ofRoles !== undefined && count !== ofRoles) job.refuse("count", `none, or the sum over the roles, ${ofRoles}`);
  if (kind === JobKind.DAEMON && count > 0) job.refuse("count", "none: a daemon job has one task on each node");
  const spec = {
    name: name ?? "",
    user: job.name("user") ?? "",
    kind,
    count,
    roles,
    priority: job.value("priority", PRIORITY_ACCEPTED, priorityOf) ?? (isBatch ? 100 : 200),
    ...placedTogether(job, count),
    after: job.list("after", 32, (item, path) => afterOf(problems, path, item)),
    constraints: job.list("constraints", 32, (item, path) => constraintOf(problems, path, item)),
    spread: spreadsOf(job),
    affinity: job.list("affinity", 16, (item, path) => affinityOf(new Fields(problems, path, item))),
    tolerations: job.list("tolerations", 32, (item, path) => tolerationOf(problems, path, item)),
    task: taskSpecOf(job, kind),
    overrides: overridesOf(job, count),
    restart: restartOf(job, isBatch),
    labels: labelsOf(job),
    scheduler: job.name("scheduler") ?? "",
    profile: job.text("profile") ?? "",
    queue: job.text("queue") ?? "",
    description: job.text("description", "one line of at most 512 bytes", isLine) ?? "",
    allocSet: job.name("allocSet") ?? "",
    drainDelayMs: job.duration("drainDelay", DELAY) ?? 0n,
    ...optional("lostAfterMs", job.duration("lostAfter", DAY)),
    ...optional("progressDeadlineMs", job.duration("progressDeadline", DAY)),
    ...optional("preemption", preemptionOf(job.object("preemption"))),
    ...optional("update", updateOf(job.object("update"))),
  } satisfies MessageInitShape<typeof JobSpecSchema>;
  job.done();
  problems.done();
  return create(JobSpecSchema, spec);
}

function priorityOf(value: unknown): number | undefined {
  if (typeof value === "string") return Object.hasOwn(BANDS, value) ? BANDS[value] : undefined;
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 399 ? value : undefined;
}

function isLine(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it finds what a line must not have
  return new TextEncoder().encode(text).length <= 512 && !/[\u0000-\u001f\u007f]/.test(text);
}

function labelsOf(job: Fields): Record<string, string> {
  const labels = job.map("labels", "texts by keys of 1 to 128 letters, digits and . _ / -", isKey) ?? {};
  if (Object.keys(labels).length > 64) job.refuse("labels", "at most 64");
  return labels;
}

/** Minimum and topology of a gang. A minimum of 0 is the default of the gateway. */
function placedTogether(job: Fields, count: number) {
  const topology = job.raw("gangTopology");
  const given = typeof topology === "string" ? { attribute: topology } : topology;
  const gangTopology = topologyOf(given === undefined ? undefined : new Fields(job.problems, "gangTopology", given));
  const accepted = `"all", or a whole number from 1 to the count, ${count}`;
  const minMember = job.value("minMember", accepted, (value) => {
    if (value === "all") return count;
    return typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= Math.max(count, 1)
      ? value
      : undefined;
  });
  return { minMember: minMember ?? 0, ...optional("gangTopology", gangTopology) };
}

function topologyOf(fields: Fields | undefined): MessageInitShape<typeof GangTopologySchema> | undefined {
  if (!fields) return undefined;
  const domains = { least: 1, most: 64 };
  const exactly = fields.whole("exactly", domains);
  const atMost = fields.whole("atMost", domains);
  if (exactly !== undefined && atMost !== undefined) fields.refuse("atMost", "none beside exactly");
  const topology = {
    attribute: fields.text("attribute", "the name of an attribute", isKey) ?? "",
    domainsMin: exactly ?? 1,
    domainsMax: exactly ?? atMost ?? 1,
    preferred: fields.flag("prefer") ?? false,
  };
  if (fields.raw("attribute") === undefined) fields.refuse("attribute", "the name of an attribute");
  fields.done();
  return topology;
}

function roleOf(fields: Fields): MessageInitShape<typeof RoleSchema> {
  const name = fields.name("name");
  if (fields.raw("name") === undefined) fields.refuse("name", "a name such as worker");
  const count = fields.whole("count", { ...COUNT, least: 1 }) ?? 1;
  const minMember = fields.whole("minMember", { least: 0, most: count }) ?? count;
  const role = { name: name ?? "", count, minMember, task: overrideOf(fields) };
  fields.done();
  return role;
}

function afterOf(problems: Problems, path: string, item: unknown) {
  const fields = new Fields(problems, path, typeof item === "string" ? { job: item } : item);
  const condition = fields.word("condition", AFTER_CONDITIONS) ?? After_Condition.SUCCEEDED;
  const after = { job: fields.name("job") ?? "", condition };
  if (fields.raw("job") === undefined) fields.refuse("job", "the name of a job");
  fields.done();
  return after;
}

function overridesOf(job: Fields, count: number) {
  const given = job.object("overrides");
  const overrides: Record<number, ReturnType<typeof overrideOf>> = {};
  for (const index of Object.keys(job.raw("overrides") ?? {})) {
    const fields = given?.object(index);
    if (!/^\d+$/.test(index) || Number(index) >= count) given?.refuse(index, `indexes below the count, ${count}`);
    if (!fields) continue;
    overrides[Number(index)] = overrideOf(fields);
    fields.done();
  }
  return overrides;
}

function restartOf(job: Fields, isBatch: boolean): MessageInitShape<typeof RestartSpecSchema> {
  const given = job.raw("restart");
  const fields = new Fields(job.problems, "restart", typeof given === "object" ? given : { mode: given });
  const mode = fields.word("mode", MODES) ?? (isBatch ? RestartSpec_Mode.ON_FAILURE : RestartSpec_Mode.ALWAYS);
  const attempts = fields.value("attempts", '"unlimited", or a whole number from 0', (value) => {
    if (value === "unlimited") return value;
    return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 0xffffffff
      ? value
      : undefined;
  });
  const attemptsMax = attempts ?? (isBatch ? 3 : "unlimited");
  const pause = { ...DELAY, least: 10 };
  const backoffInitialMs = fields.duration("backoff", pause) ?? 500n;
  const restart = {
    mode,
    ...(attemptsMax !== "unlimited" && { attemptsMax }),
    backoffInitialMs,
    backoffMaxMs: fields.duration("backoffMax", { ...pause, least: Number(backoffInitialMs) }) ?? 60_000n,
    resetAfterMs: fields.duration("resetAfter", DELAY) ?? 120_000n,
  };
  fields.done();
  return restart;
}

function preemptionOf(fields: Fields | undefined): Preemption | undefined {
  if (!fields) return undefined;
  const preemption = create(PreemptionSchema, {
    never: fields.flag("never") ?? false,
    ...optional("noticeMaxMs", fields.duration("noticeMax", DELAY)),
    ...optional("downMax", fields.whole("downMax", COUNT)),
  });
  fields.done();
  return preemption;
}

function updateOf(fields: Fields | undefined): MessageInitShape<typeof UpdateSpecSchema> | undefined {
  if (!fields) return undefined;
  const signals = {
    SIGHUP: UpdateSpec_ResizeSignal.SIGHUP,
    SIGUSR1: UpdateSpec_ResizeSignal.SIGUSR1,
    SIGUSR2: UpdateSpec_ResizeSignal.SIGUSR2,
    SIGWINCH: UpdateSpec_ResizeSignal.SIGWINCH,
  };
  const failures = { revert: UpdateSpec_OnFailure.REVERT, stop: UpdateSpec_OnFailure.STOP };
  const resizes = { in_place: UpdateSpec_Resize.IN_PLACE, restart: UpdateSpec_Resize.RESTART };
  const update = {
    ...optional("unavailableMax", fields.whole("unavailableMax", COUNT)),
    ...optional("unavailablePercentMax", fields.whole("unavailablePercentMax", { least: 1, most: 100 })),
    healthyAfterMs: fields.duration("healthyAfter", DELAY) ?? 10_000n,
    failuresMax: fields.whole("failuresMax", { least: 0, most: 100 }) ?? 2,
    onFailure: fields.word("onFailure", failures) ?? UpdateSpec_OnFailure.REVERT,
    ...optional("surgeMax", fields.whole("surgeMax", COUNT)),
    ...optional("surgePercentMax", fields.whole("surgePercentMax", { least: 0, most: 100 })),
    canaries: fields.whole("canaries", { least: 0, most: 50_000 }) ?? 0,
    autoPromote: fields.flag("autoPromote") ?? false,
    ...optional("disruptionsMax", fields.whole("disruptionsMax", COUNT)),
    resize: fields.word("resize", resizes) ?? UpdateSpec_Resize.IN_PLACE,
    ...optional("resizeSignal", fields.word("resizeSignal", signals)),
  };
  fields.done();
  return update;
}
