/** Commands inside running tasks. Nothing is tried again, so that a command never runs twice. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Calls, Failed, type OpenStream } from "./calls.js";
import { CancelledError, IncompleteError, invalid } from "./errors.js";
import { type ExecOpen, ExecRequestSchema, type ExecResponse, TaskService } from "./gen/borough/v1/task_pb.js";
import { LATE } from "./time.js";

/** The most bytes of input in one message. */
const INPUT_BYTES_MAX = 32 * 1024;

type ExecMessage = MessageInitShape<typeof ExecRequestSchema>;

/** A size of a terminal in characters. */
export interface TerminalSize {
  /** Lines. */
  readonly rows: number;
  /** Characters of a line. */
  readonly columns: number;
}

/** How a command ended: by itself with a code, or by a signal. */
export interface ExecExit {
  /** Its exit code. */
  readonly code?: number;
  /** The number of the signal that ended it. */
  readonly signal?: number;
}

/** Output of a command. */
export interface ExecOutput {
  /** Which of its streams. With a terminal all output is `stdout`. */
  readonly stream: "stdout" | "stderr";
  /** The bytes. */
  readonly data: Uint8Array;
}

/** Input for a command: one value, or parts as they come. */
export type ExecInput = string | Uint8Array | Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;

/** A queue of messages to a command that is read while it is filled. */
class InputQueue implements AsyncIterable<ExecMessage> {
  #messages: ExecMessage[] = [];
  #closed = false;
  #wake = () => {};
  #taken = () => {};

  /** Resolves when the message is taken, so that a fast caller waits for a slow command. */
  async push(message: ExecMessage): Promise<void> {
    if (this.#closed) return;
    const taken = new Promise<void>((resolve) => {
      const before = this.#taken;
      this.#taken = () => {
        before();
        resolve();
      };
    });
    this.#messages.push(message);
    this.#wake();
    await taken;
  }

  close(): void {
    this.#closed = true;
    this.#wake();
    this.#taken();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ExecMessage> {
    for (;;) {
      const messages = this.#messages.splice(0);
      const taken = this.#taken;
      this.#taken = () => {};
      yield* messages;
      taken();
      if (this.#messages.length > 0) continue;
      if (this.#closed) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/**
 * A command that runs in a task. Read it as an async iterator of its output; `exit` says how it ended. Leaving the loop
 * early ends the command.
 */
export class ExecSession implements AsyncIterable<ExecOutput> {
  /** How the command ended. Settles when its output has ended. */
  readonly exit: Promise<ExecExit>;
  #settle: { resolve: (exit: ExecExit) => void; reject: (error: unknown) => void } = { resolve() {}, reject() {} };

  #closed = false;

  /** @internal */
  constructor(
    private readonly calls: Calls,
    private readonly stream: OpenStream<ExecResponse>,
    private readonly queue: InputQueue,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.exit = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Who reads the output gets its error there.
    this.exit.catch(() => {});
  }

  /** Sends input. Resolves when it is on its way. Input after the end of the command is dropped. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += INPUT_BYTES_MAX) {
      const part = bytes.subarray(at, at + INPUT_BYTES_MAX);
      await this.queue.push({ message: { case: "stdin", value: new Uint8Array(part) } });
    }
  }

  /** Ends the input. */
  async end(): Promise<void> {
    await this.queue.push({ message: { case: "stdinClosed", value: true } });
  }

  /** Tells the command that its terminal has another size. */
  async resize(size: TerminalSize): Promise<void> {
    await this.queue.push({ message: { case: "window", value: { ...size } } });
  }

  /** Leaves the command: the gateway ends it. */
  close(): void {
    this.#closed = true;
    this.queue.close();
    this.stream.close();
    this.#settle.reject(new CancelledError());
  }

  /** The output until the command has ended. Can be read once. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ExecOutput, void> {
    try {
      for (;;) {
        const { done, value } = await this.stream.messages.next();
        if (done) throw new IncompleteError(TaskService.method.exec.name, "exit");
        const { message } = value;
        if (message.case === "exit") {
          const { code, signal } = message.value;
          this.#settle.resolve({ ...(code !== undefined && { code }), ...(signal !== undefined && { signal }) });
          return;
        }
        if (message.case !== undefined) yield { stream: message.case, data: message.value };
      }
    } catch (thrown) {
      const error = this.#errorOf(thrown);
      this.#settle.reject(error);
      throw error;
    } finally {
      this.close();
    }
  }

  #errorOf(thrown: unknown): unknown {
    if (this.signal?.aborted) return new CancelledError(this.signal.reason);
    if (this.#closed) return new CancelledError();
    return thrown instanceof Failed ? this.calls.errorOf(thrown.failure, TaskService.method.exec.name) : thrown;
  }
}

/** Opens a command. */
export async function execOpen(
  calls: Calls,
  open: ExecOpen,
  {
    signal,
    deadlineMs = calls.config.deadlineMs,
  }: { signal?: AbortSignal | undefined; deadlineMs?: number | undefined },
): Promise<ExecSession> {
  if (open.command.length === 0) throw invalid("command", open.command, "a program and its arguments");
  const queue = new InputQueue();
  void queue.push(create(ExecRequestSchema, { message: { case: "open", value: open } }));
  const method = TaskService.method.exec;
  try {
    const stream = await calls.streamOnce(method, queue, signal, deadlineMs);
    if (stream !== LATE) return new ExecSession(calls, stream, queue, signal);
    throw calls.deadline(method.name, deadlineMs);
  } catch (thrown) {
    queue.close();
    if (signal?.aborted) throw new CancelledError(signal.reason);
    throw thrown instanceof Failed ? calls.errorOf(thrown.failure, method.name) : thrown;
  }
}

/** Sends all of an input, and its end. */
export async function execInput(session: ExecSession, input: ExecInput | undefined): Promise<void> {
  if (typeof input === "string" || input instanceof Uint8Array) await session.write(input);
  else if (input) for await (const part of input) await session.write(part);
  await session.end();
}
