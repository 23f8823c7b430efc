/** Tasks: their state, their output, and calls on single ones. */

import { create } from "@bufbuild/protobuf";
import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf } from "./context.js";
import { UnsupportedError } from "./errors.js";
import { type ExecExit, type ExecInput, type ExecSession, execInput, execOpen, type TerminalSize } from "./exec.js";
import {
  ExecOpenSchema,
  type Explanation,
  ReadLogsRequest_Stream,
  ReadLogsRequestSchema,
  type Task,
  type TaskCondition,
  TaskService,
  type TaskState,
} from "./gen/borough/v1/task_pb.js";
import { cancellable, rowsOf } from "./iterate.js";
import { conditionsOf, type LabelSelector } from "./labels.js";
import { LogFollower, type LogItem } from "./log/follower.js";
import { type JobName, jobOf, type TaskName, taskOf } from "./refs.js";

/** Which tasks are listed: of one job, of a node, of a user, or of all. */
export interface TaskFilter {
  /** The tasks of this job. */
  readonly job?: JobName;
  /** Only this one of the tasks of the job. */
  readonly index?: number;
  /** The tasks on this node, of every user and job. */
  readonly node?: string;
  /** Without `job` and `node`: the user of the jobs; `"*"`: every user. Default: the user of the client. */
  readonly user?: string;
  /** Only tasks in one of these states. */
  readonly states?: readonly TaskState[];
  /** Only tasks in one of these conditions. */
  readonly conditions?: readonly TaskCondition[];
  /** Only tasks of jobs with labels that meet all of these conditions. */
  readonly labels?: LabelSelector;
  /** Without `job` and `node`: also tasks of jobs that are over. */
  readonly ended?: boolean;
  /** Without tasks beyond the count of their job that have ended. */
  readonly wanted?: boolean;
}

/** Which part of the output of a task is read. The default is all kept output of both streams. */
export interface LogOptions extends CallOptions {
  /** Only this stream. */
  readonly stream?: "stdout" | "stderr";
  /** Whole lines from the end. */
  readonly tailLines?: number;
  /** Goes on with new output until the attempt ends. */
  readonly follow?: boolean;
  /** Absent: the current or last attempt. */
  readonly incarnation?: bigint;
  /** Only what was written in the last so many milliseconds. */
  readonly sinceMs?: number;
  /** Also says when the output was written. */
  readonly times?: boolean;
  /** The output of this helper, instead of that of the command. */
  readonly helper?: string;
  /** How much the gateway holds for a slow reader: 16,384 to 262,144 bytes. Default: 262,144. */
  readonly windowBytes?: number;
}

/** What a command that {@link Tasks.run} ran has written, and how it ended. */
export interface ExecResult extends ExecExit {
  /** Its standard output. */
  readonly stdout: Uint8Array;
  /** Its standard error. */
  readonly stderr: Uint8Array;
}

const STREAMS = { stdout: ReadLogsRequest_Stream.STDOUT, stderr: ReadLogsRequest_Stream.STDERR };

/** The tasks of a cell. */
export class Tasks {
  /** @internal */
  constructor(
    private readonly context: CellContext,
    private readonly canExec: boolean,
  ) {}

  /** The tasks that a filter chooses, over all pages. */
  list(filter: TaskFilter = {}, options: ListOptions = {}): AsyncIterableIterator<Task> {
    const { node = "", states = [], conditions = [], ended = false, wanted = false, index } = filter;
    const owner = filter.user ?? (node === "" ? this.context.user : "");
    const job = filter.job === undefined ? undefined : jobOf(filter.job, owner);
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        TaskService.method.listTasks,
        {
          context: this.context.read(),
          cell: this.context.cell,
          user: job?.user ?? (owner === "*" ? "" : owner),
          job: job?.name ?? "",
          node,
          states: [...states],
          conditions: [...conditions],
          selector: conditionsOf(filter.labels),
          ended,
          wanted,
          ...(index !== undefined && { index }),
          page: pageOf(page, options),
        },
        { ...options, signal },
      );
      return { rows: answer.tasks, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /** Explains why the tasks of a job are not placed, or fail. */
  async explain(job: JobName, options: CallOptions & { readonly index?: number } = {}): Promise<Explanation[]> {
    const { user, name } = jobOf(job, this.context.user);
    return this.#explain({ user, job: name, ...(options.index !== undefined && { index: options.index }) }, options);
  }

  /** Explains why a task has no room on another node, as if it left its node now. */
  async explainElsewhere(task: TaskName, options: CallOptions = {}): Promise<Explanation[]> {
    return this.#explain({ ...taskOf(task, this.context.user), elsewhere: true }, options);
  }

  /**
   * The output of a task. It ends with the kept output or, with `follow`, with the attempt. It goes on over broken
   * connections, without gap or repetition.
   */
  logs(task: TaskName, options: LogOptions = {}): AsyncIterableIterator<LogItem> {
    const { stream, tailLines, follow = false, incarnation, sinceMs, times = false } = options;
    const request = create(ReadLogsRequestSchema, {
      ...this.#read(task),
      follow,
      times,
      stream: stream ? STREAMS[stream] : ReadLogsRequest_Stream.STREAM_UNSPECIFIED,
      helper: options.helper ?? "",
      windowBytes: options.windowBytes ?? 0,
      ...(tailLines !== undefined && { tailLines }),
      ...(incarnation !== undefined && { incarnation }),
      ...(sinceMs !== undefined && { sinceMs: BigInt(sinceMs) }),
    });
    return cancellable((signal) => new LogFollower(this.context.calls, request).items(signal), options.signal);
  }

  /**
   * Runs a command inside a running task. Nothing is tried again, so that it never runs twice.
   *
   * @throws {@link UnsupportedError} in a browser, which cannot stream in both directions.
   */
  async exec(
    task: TaskName,
    command: readonly string[],
    options: ChangeOptions & { readonly terminal?: TerminalSize } = {},
  ): Promise<ExecSession> {
    if (!this.canExec) throw new UnsupportedError("exec needs streams in both directions, which a browser has not");
    const open = create(ExecOpenSchema, {
      context: this.context.change(options),
      cell: this.context.cell,
      ...taskOf(task, this.context.user),
      command: [...command],
      ...(options.terminal && { terminal: { ...options.terminal } }),
    });
    return execOpen(this.context.calls, open, options);
  }

  /** Runs a command inside a running task until it ends, with `input`, and returns its output. */
  async run(
    task: TaskName,
    command: readonly string[],
    options: ChangeOptions & { readonly input?: ExecInput } = {},
  ): Promise<ExecResult> {
    const session = await this.exec(task, command, options);
    const parts = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    let broken: { error: unknown } | undefined;
    // The command may end without reading it all.
    execInput(session, options.input).catch((error: unknown) => {
      broken = { error };
      session.close();
    });
    try {
      for await (const { stream, data } of session) parts[stream].push(data);
    } catch (error) {
      // An input of the caller that fails ends the command, and is the reason.
      throw broken ? broken.error : error;
    }
    return { ...(await session.exit), stdout: joined(parts.stdout), stderr: joined(parts.stderr) };
  }

  /** Sends a signal, 1 to 64, to the process of a running task. */
  async signal(task: TaskName, signal: number, options: ChangeOptions = {}): Promise<void> {
    const message = { ...this.#change(task, options), signal };
    await this.context.calls.unary(TaskService.method.signalTask, message, options);
  }

  /** Ends the attempt of a task, and starts the next one. Returns the number of the attempt that ends. */
  async restart(task: TaskName, options: ChangeOptions = {}): Promise<bigint> {
    const message = this.#change(task, options);
    return (await this.context.calls.unary(TaskService.method.restartTask, message, options)).incarnation;
  }

  /**
   * Ends the attempt of a task, and starts the next one, preferably on another node. Returns the number of the attempt
   * that ends.
   *
   * @param options - `expected`: the job and the attempt that are meant. Others are then refused.
   */
  async stop(
    task: TaskName,
    options: ChangeOptions & { readonly expected?: { readonly job: string; readonly incarnation: bigint } } = {},
  ): Promise<bigint> {
    const { job = "", incarnation = 0n } = options.expected ?? {};
    const message = { ...this.#change(task, options), expectedJob: job, expectedIncarnation: incarnation };
    return (await this.context.calls.unary(TaskService.method.stopTask, message, options)).incarnation;
  }

  async #explain(
    what: { user: string; job: string; index?: number; elsewhere?: boolean },
    options: CallOptions,
  ): Promise<Explanation[]> {
    const message = { context: this.context.read(), cell: this.context.cell, ...what };
    return (await this.context.calls.unary(TaskService.method.explainTask, message, options)).explanations;
  }

  #change(task: TaskName, options: ChangeOptions) {
    const context = this.context.change(options);
    return { context, cell: this.context.cell, ...taskOf(task, this.context.user) };
  }

  #read(task: TaskName) {
    return { context: this.context.read(), cell: this.context.cell, ...taskOf(task, this.context.user) };
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((bytes, part) => bytes + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
