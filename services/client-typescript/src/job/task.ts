/** The part of a spec that says what a task runs and needs. Pure. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { HelperPhase, type ResourcesSchema } from "../gen/borough/v1/common_pb.js";
import {
  type DeviceSelectorSchema,
  type HealthCheckSchema,
  type HelperSpecSchema,
  type IdentitySpecSchema,
  JobKind,
  type PortSpecSchema,
  SecretForm,
  type SecretReferenceSchema,
  type TaskOverrideSchema,
  TaskSpec_Within,
  type TaskSpecSchema,
} from "../gen/borough/v1/job_pb.js";
import { Fields, optional, type Problems } from "./fields.js";

const MIB = 2 ** 20;
const PORTS_MAX = 32;
const DELAY = { least: 0, most: 3_600_000 };
/** The shortest interval of probes, in milliseconds. */
const INTERVAL_LEAST = 100;
/** The longest time of a probe unless it is given, in milliseconds. */
const PROBE_TIMEOUT = 2_000;
const VARIABLES_ACCEPTED = "texts by names without =";
const WITHIN = { one_socket: TaskSpec_Within.ONE_SOCKET, one_numa_node: TaskSpec_Within.ONE_NUMA_NODE };
const SECRET_NAME = /^(?!BOROUGH_|PORT_)[A-Za-z_][A-Za-z0-9_]*$/;
const SECRET_NAME_ACCEPTED = "letters, digits and _, not starting with a digit, nor with BOROUGH_ or PORT_";
const SECRET_FORMS = { variable: SecretForm.VARIABLE, file: SecretForm.FILE };
const PHASES = { before: HelperPhase.BEFORE, beside: HelperPhase.BESIDE, after: HelperPhase.AFTER };

/** What holds an alloc. */
const ALLOC_COMMAND = ["sleep", "infinity"];

/** The task of a job. */
export function taskSpecOf(job: Fields, kind: JobKind): MessageInitShape<typeof TaskSpecSchema> {
  const isAlloc = kind === JobKind.ALLOC_SET;
  const task = new Fields(job.problems, "task", job.raw("task") ?? {});
  const command = task.command("command");
  if (isAlloc && command) task.refuse("command", "none in an alloc set: an alloc runs nothing itself");
  if (!isAlloc && task.raw("command") === undefined) task.refuse("command", "a list of a program and its arguments");
  const { resources, deviceSelectors } = resourcesOf(task.object("resources"));
  const ports = portsOf(task);
  onceEach(task, ports);
  const log = task.object("log");
  const isPath = (text: string) => text.startsWith("/") && !text.includes("\0");
  const spec = {
    command: command ?? ALLOC_COMMAND,
    environment: task.map("environment", VARIABLES_ACCEPTED, isVariable) ?? {},
    ...optional("workingDirectory", task.text("workingDirectory", "an absolute path", isPath)),
    resources,
    deviceSelectors,
    ports,
    ...optional("health", healthOf(task.object("health"), ports)),
    graceMs: task.duration("grace", DELAY) ?? 5_000n,
    log: {
      fileBytesMax: log?.bytes("fileBytes", 4_096, 2 ** 30) ?? BigInt(10 * MIB),
      filesMax: log?.whole("files", { least: 1, most: 100 }) ?? 3,
    },
    weight: task.whole("weight", { least: 1, most: 255 }) ?? 1,
    within: task.word("within", WITHIN) ?? TaskSpec_Within.WITHIN_UNSPECIFIED,
    packages: task.texts("packages", "a list of names and versions such as web/1.4.2") ?? [],
    exclusiveCores: task.flag("exclusiveCores") ?? false,
    helpers: task.list("helpers", 8, (item, path) => helperOf(new Fields(task.problems, path, item))),
    identities: task.list("identities", 4, (item, path) => identityOf(new Fields(task.problems, path, named(item)))),
    secrets: task.list("secrets", 16, (item, path) => secretOf(new Fields(task.problems, path, item))),
  };
  log?.done();
  task.done();
  return spec;
}

/** What differs for some tasks. The caller reads the other fields. */
export function overrideOf(fields: Fields): MessageInitShape<typeof TaskOverrideSchema> {
  const resources = fields.object("resources");
  return {
    command: fields.command("command") ?? [],
    arguments: fields.texts("arguments") ?? [],
    environment: fields.map("environment", VARIABLES_ACCEPTED, isVariable) ?? {},
    ...(resources && { resources: resourcesOf(resources).resources }),
    ...optional("weight", fields.whole("weight", { least: 1, most: 255 })),
  };
}

function isVariable(name: string): boolean {
  return name !== "" && !name.includes("=") && !name.includes("\0");
}

function resourcesOf(fields: Fields | undefined) {
  const deviceMillis: Record<string, bigint> = {};
  const deviceSelectors: Record<string, MessageInitShape<typeof DeviceSelectorSchema>> = {};
  const devices = fields?.object("devices");
  for (const kind of Object.keys(fields?.raw("devices") ?? {})) {
    const given = devices?.raw(kind);
    const device = new Fields(fields?.problems as Problems, `${fields?.at("devices")}.${kind}`, countOf(given));
    const millis = device.value("count", "whole devices from 1, or a share of one such as 0.5", devicesMillis);
    deviceMillis[kind] = BigInt(millis ?? 0);
    const models = device.texts("model");
    const memory = device.bytes("memory", 0);
    if (models || memory) deviceSelectors[kind] = { models: models ?? [], memoryBytesMin: memory ?? 0n };
    device.done();
  }
  const resources: MessageInitShape<typeof ResourcesSchema> = {
    cpuMillis: fields?.cores("cpu") ?? 100n,
    memoryBytes: fields?.bytes("memory", MIB) ?? BigInt(64 * MIB),
    diskBytes: fields?.bytes("disk", 0) ?? 0n,
    diskBytesPerS: fields?.rate("diskRate") ?? 0n,
    networkBytesPerS: fields?.rate("networkRate") ?? 0n,
    deviceMillis,
  };
  fields?.done();
  return { resources, deviceSelectors };
}

function countOf(given: unknown): unknown {
  return typeof given === "number" ? { count: given } : given;
}

function devicesMillis(value: unknown): number | undefined {
  if (typeof value !== "number") return undefined;
  const millis = Math.round(value * 1_000);
  const isExact = Math.abs(value * 1_000 - millis) < 1e-6;
  return isExact && millis > 0 && (millis <= 1_000 || millis % 1_000 === 0) ? millis : undefined;
}

/** The ports of a task: a list, or a map of names with their numbers. */
function portsOf(task: Fields): MessageInitShape<typeof PortSpecSchema>[] {
  const given = task.raw("ports");
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    return task.list("ports", PORTS_MAX, (item, path) => portOf(task.problems, path, item));
  }
  const entries = Object.entries(given);
  if (entries.length > PORTS_MAX) task.refuse("ports", `at most ${PORTS_MAX} ports`);
  return entries.map(([name, number]) => {
    const port = number === "auto" ? { name } : { name, number };
    return portOf(task.problems, `${task.at("ports")}.${name}`, port);
  });
}

function portOf(problems: Problems, path: string, item: unknown): MessageInitShape<typeof PortSpecSchema> {
  const fields = new Fields(problems, path, typeof item === "string" ? { name: item } : item);
  const name = fields.name("name");
  if (fields.raw("name") === undefined) fields.refuse("name", "a name such as http");
  const number = fields.whole("number", { least: 1_024, most: 65_535 });
  fields.done();
  return { name: name ?? "", ...optional("number", number) };
}

function onceEach(task: Fields, ports: readonly MessageInitShape<typeof PortSpecSchema>[]): void {
  ports.forEach(({ name, number }, at) => {
    const before = ports.slice(0, at);
    const path = `${task.at("ports")}[${at}]`;
    if (name && before.some((port) => port.name === name)) {
      task.problems.refuse(`${path}.name`, name, "each name once");
    }
    if (number !== undefined && before.some((port) => port.number === number)) {
      task.problems.refuse(`${path}.number`, number, "each number once");
    }
  });
}

function healthOf(
  fields: Fields | undefined,
  ports: readonly MessageInitShape<typeof PortSpecSchema>[],
): MessageInitShape<typeof HealthCheckSchema> | undefined {
  if (!fields) return undefined;
  const names = ports.map(({ name }) => name ?? "");
  const http = fields.object("http");
  const tcp = fields.object("tcp");
  const command = fields.command("command");
  const given = ["http", "tcp", "command"].filter((probe) => fields.raw(probe) !== undefined);
  if (given.length !== 1) {
    fields.problems.refuse(fields.path, given.join(", ") || "no probe", "exactly one of http, tcp and command");
  }
  let probe: MessageInitShape<typeof HealthCheckSchema>["probe"] = {
    case: "command",
    value: { command: command ?? [] },
  };
  if (http) {
    const path = http.text("path", "a path that begins with /", (text) => /^\/[\x21-\x7e]*$/.test(text)) ?? "/";
    probe = { case: "http", value: { port: probePort(http, names), path } };
  } else if (tcp) {
    probe = { case: "tcp", value: { port: probePort(tcp, names) } };
  }
  const intervalMs = fields.duration("interval", { ...DELAY, least: INTERVAL_LEAST }) ?? 5_000n;
  const timeoutMs = fields.duration("timeout", { least: 1, most: Number(intervalMs) });
  const health = {
    probe,
    intervalMs,
    timeoutMs: timeoutMs ?? BigInt(Math.min(PROBE_TIMEOUT, Number(intervalMs))),
    failuresMax: fields.whole("failures", { least: 1, most: 1_000 }) ?? 3,
    initialGraceMs: fields.duration("initialGrace", DELAY) ?? 10_000n,
  };
  for (const read of [http, tcp, fields]) read?.done();
  return health;
}

function probePort(probe: Fields, names: readonly string[]): string {
  const known = names.length > 0 ? names.join(", ") : "none, the task has no ports";
  const port = probe.text("port", `the name of one of its ports: ${known}`, (name) => names.includes(name));
  if (probe.raw("port") === undefined) probe.refuse("port", `the name of one of its ports: ${known}`);
  return port ?? "";
}

function helperOf(fields: Fields): MessageInitShape<typeof HelperSpecSchema> {
  for (const key of ["name", "when", "command"]) {
    if (fields.raw(key) === undefined) fields.refuse(key, "a value: helpers have a name, when and command");
  }
  const helper = {
    name: fields.name("name") ?? "",
    when: fields.word("when", PHASES) ?? HelperPhase.BEFORE,
    command: fields.command("command") ?? [],
    environment: fields.map("environment", VARIABLES_ACCEPTED, isVariable) ?? {},
    cpuMillis: fields.cores("cpu") ?? 100n,
    memoryBytes: fields.bytes("memory", MIB) ?? BigInt(64 * MIB),
    ...optional("deadlineMs", fields.duration("deadline", { least: 1_000, most: 3_600_000 })),
  };
  fields.done();
  return helper;
}

/** A name alone stands for a map with it. */
function named(item: unknown): unknown {
  return typeof item === "string" ? { name: item } : item;
}

function identityOf(fields: Fields): MessageInitShape<typeof IdentitySpecSchema> {
  if (fields.raw("name") === undefined) fields.refuse("name", "a value: identities have a name");
  const name = fields.name("name") ?? "";
  const isAudience = (text: string) => /^[!-~]{1,256}$/.test(text);
  const identity = {
    name,
    audience: fields.text("audience", "1 to 256 characters of visible ASCII", isAudience) ?? name,
    ttlMs: fields.duration("ttl", { least: 30_000, most: 86_400_000 }) ?? 3_600_000n,
  };
  fields.done();
  return identity;
}

function secretOf(fields: Fields): MessageInitShape<typeof SecretReferenceSchema> {
  for (const key of ["name", "source"]) {
    if (fields.raw(key) === undefined) fields.refuse(key, "a value: secrets have a name and a source");
  }
  const isPlace = (text: string) => text.length <= 256 && /^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(text);
  const secret = {
    name: fields.text("name", SECRET_NAME_ACCEPTED, (text) => SECRET_NAME.test(text)) ?? "",
    source: fields.text("source", "a path below the secrets of the job's user, such as db/password", isPlace) ?? "",
    form: fields.word("as", SECRET_FORMS) ?? SecretForm.VARIABLE,
  };
  fields.done();
  return secret;
}
