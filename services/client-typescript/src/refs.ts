/** How callers name jobs and tasks. Pure. */

import { invalid } from "./errors.js";

/** A job by its user and name. */
export interface JobRef {
  /** The user that owns it; absent: the user of the client. */
  readonly user?: string;
  /** Its name. */
  readonly name: string;
}

/** A task by its job and index. */
export interface TaskRef {
  /** The user that owns the job; absent: the user of the client. */
  readonly user?: string;
  /** The name of the job. */
  readonly job: string;
  /** Its number within the job, from 0. */
  readonly index: number;
}

/** A job: `"web"`, `"alice/web"`, or an object such as a `Job` of an answer. */
export type JobName = string | JobRef;
/** A task: `"web/0"`, `"alice/web/0"`, or an object such as a `Task` of an answer. */
export type TaskName = string | TaskRef;

const NAME_ACCEPTED = "a name of 1 to 63 of a-z, 0-9 and -, beginning with a letter, not ending with -";

/** Returns true for a DNS label that begins with a letter. */
export function isName(text: string): boolean {
  return /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text);
}

/** The job of the user and name that `job` says. `user` is that of the client. */
export function jobOf(job: JobName, user: string): { user: string; name: string } {
  if (typeof job !== "string") return { user: named("user", job.user ?? user), name: named("job", job.name) };
  const parts = job.split("/");
  if (parts.length > 2) throw invalid("job", job, "JOB or USER/JOB");
  const name = parts.pop() ?? "";
  return { user: named("user", parts.pop() ?? user), name: named("job", name) };
}

/** The task of the user, job and index that `task` says. `user` is that of the client. */
export function taskOf(task: TaskName, user: string): { user: string; job: string; index: number } {
  if (typeof task !== "string") {
    return { user: named("user", task.user ?? user), job: named("job", task.job), index: indexOf(task.index) };
  }
  const [, owner, job, index] = /^(?:([^/]*)\/)?([^/]*)\/(\d{1,9})$/.exec(task) ?? [];
  if (job === undefined) throw invalid("task", task, "JOB/INDEX or USER/JOB/INDEX");
  return { user: named("user", owner ?? user), job: named("job", job), index: Number(index) };
}

/** Refuses a text that is no name. */
export function named(field: string, text: string): string {
  if (typeof text !== "string" || !isName(text)) throw invalid(field, text, NAME_ACCEPTED);
  return text;
}

function indexOf(index: number): number {
  if (!Number.isInteger(index) || index < 0 || index > 99_999) throw invalid("index", index, "0 to 99999");
  return index;
}
