/** Who a task is, from the environment that its agent gives it. Pure. */

import { invalid } from "../errors.js";

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The alloc that a task runs in. */
export interface TaskAlloc {
  /** The name of the alloc set. */
  readonly set: string;
  /** The index of the alloc in it. */
  readonly index: number;
  /** The directory that the tasks in the alloc share; absent: an older agent. */
  readonly directory?: string;
}

/** The program that reads this, as Borough knows it. */
export interface TaskIdentity {
  /** The cell that runs it. */
  readonly cell: string;
  /** The user that owns its job. */
  readonly user: string;
  /** The name of its job. */
  readonly job: string;
  /** Its number within the job, from 0. */
  readonly index: number;
  /** The number of its attempt. A later attempt of the task has a higher one. */
  readonly attempt: bigint;
  /** The name of its node. */
  readonly node: string;
  /** The address of its node, under which other tasks reach it. */
  readonly host: string;
  /** Its own directory. */
  readonly directory: string;
  /** Its role, in a job with roles. */
  readonly role?: { readonly name: string; readonly index: number };
  /** The alloc that it runs in. */
  readonly alloc?: TaskAlloc;
  /** The name of the helper, if this process is one. */
  readonly helper?: string;
}

const NOT_A_TASK = "the environment of a task of Borough, which the agent of its node sets";

/**
 * Who this program is.
 *
 * @param environment - Default: that of the process.
 * @throws {@link InvalidError} outside a task.
 */
export function thisTask(environment: Environment = process.env): TaskIdentity {
  const text = (name: string) => {
    const value = environment[name];
    if (value === undefined || value === "") throw invalid(name, value, NOT_A_TASK);
    return value;
  };
  const number = (name: string) => {
    const value = text(name);
    if (!/^\d{1,19}$/.test(value)) throw invalid(name, value, "a whole number, as the agent of the node sets it");
    return value;
  };
  const has = (name: string) => environment[name] !== undefined;
  const helper = environment.BOROUGH_HELPER;
  const directory = environment.BOROUGH_ALLOC_DIR;
  return {
    cell: text("BOROUGH_CELL"),
    user: text("BOROUGH_USER"),
    job: text("BOROUGH_JOB"),
    index: Number(number("BOROUGH_INDEX")),
    attempt: BigInt(number("BOROUGH_ATTEMPT")),
    node: text("BOROUGH_NODE"),
    host: text("HOST"),
    directory: text("BOROUGH_TASK_DIR"),
    ...(has("BOROUGH_ROLE") && { role: { name: text("BOROUGH_ROLE"), index: Number(number("BOROUGH_ROLE_INDEX")) } }),
    ...(has("BOROUGH_ALLOC_SET") && {
      alloc: {
        set: text("BOROUGH_ALLOC_SET"),
        index: Number(number("BOROUGH_ALLOC_INDEX")),
        ...(directory !== undefined && { directory }),
      },
    }),
    ...(helper !== undefined && { helper }),
  };
}

/**
 * The number of a port of this task, by its name in the job. A task in an alloc has its own ports, and
 * {@link allocPort} those of the alloc.
 *
 * @throws {@link InvalidError} if the task has no such port.
 */
export function taskPort(name: string, environment: Environment = process.env): number {
  return portOf(name, "PORT_", environment);
}

/** The number of a port of the alloc that this task runs in. */
export function allocPort(name: string, environment: Environment = process.env): number {
  return portOf(name, "BOROUGH_ALLOC_PORT_", environment);
}

/** The devices of a kind that this task may use, and its share of each, from 0 to 1. */
export function taskDevices(
  kind: string,
  environment: Environment = process.env,
): { readonly ids: readonly string[]; readonly share: number } {
  const name = `BOROUGH_DEVICE_${kind.toUpperCase().replace(/[^A-Z0-9]/g, "_")}`;
  const ids = (environment[name] ?? "").split(",").filter((id) => id !== "");
  return { ids, share: Number(environment[`${name}_MILLIS`] ?? 0) / 1_000 };
}

function portOf(name: string, prefix: string, environment: Environment): number {
  const variable = `${prefix}${name.toUpperCase().replaceAll("-", "_")}`;
  const number = Number(environment[variable]);
  const isPort = Number.isInteger(number) && number >= 1 && number <= 65_535;
  if (!isPort)
    throw invalid(variable, environment[variable], `the name of a port in the spec of the job, not "${name}"`);
  return number;
}
