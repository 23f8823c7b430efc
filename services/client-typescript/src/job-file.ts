/** Job files as callers give them, for federated jobs. Pure. */

import { InvalidError, type InvalidField, invalid, shown } from "./errors.js";

/**
 * A job file of a federated job: its fields with the names of `docs/job-files.md`, such as `drain_delay`. The part
 * `federation` says how cells get tasks: `{}` means every cell.
 *
 * @example
 * ```ts
 * const file: JobFile = {
 *   name: "web",
 *   count: 12,
 *   task: { command: ["serve"] },
 *   federation: { where: ["region=eu"], cell_max: 8 },
 * };
 * ```
 */
export interface JobFile {
  /** The name of the job. */
  readonly name: string;
  /** Whose job it is. Default: the user of the client. */
  readonly user?: string;
  /** How its tasks are divided among cells. */
  readonly federation: { readonly [field: string]: unknown };
  /** Every other field of a job file. */
  readonly [field: string]: unknown;
}

const ACCEPTED = "a job file: an object, or its text as JSON";

/** The job that a file names, and its JSON. `user` is that of the client. */
export function jobFileRead(file: JobFile | string, user: string): { user: string; name: string; jobFile: string } {
  const fields = typeof file === "string" ? parsed(file) : file;
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
    throw invalid("jobFile", fields, ACCEPTED);
  }
  const { name, user: owner = user } = fields;
  const named = { "jobFile.name": name, "jobFile.user": owner };
  const wrong = Object.entries(named).filter(([, value]) => typeof value !== "string" || value === "");
  if (wrong.length > 0) throw new InvalidError(wrong.map(([field, value]) => wrongName(field, value)));
  return { user: owner, name, jobFile: typeof file === "string" ? file : written(file) };
}

/** The job file of an answer. */
export function jobFileOf(text: string): JobFile {
  return parsed(text) as JobFile;
}

function wrongName(field: string, value: unknown): InvalidField {
  return { field, value: shown(value), accepted: "a name such as web" };
}

function parsed(text: string): JobFile {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid("jobFile", said(error), ACCEPTED);
  }
}

function written(file: JobFile): string {
  try {
    return JSON.stringify(file);
  } catch (error) {
    throw invalid("jobFile", said(error), "values that JSON has");
  }
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
