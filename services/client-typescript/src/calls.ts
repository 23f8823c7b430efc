/** The common path of every call: metadata, deadline, retries, rotation, decoded refusals. */

import {
  create,
  type DescMessage,
  type DescMethodStreaming,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type BoroughError,
  CancelledError,
  ClosedError,
  DeadlineError,
  DryRunError,
  invalid,
  NotGatewayError,
  RefusedError,
  TokenRefusedError,
  UnreachableError,
} from "./errors.js";
import { DryRunService } from "./gen/borough/v1/dry_run_pb.js";
import type { GatewayPool, PooledGateway } from "./pool.js";
import { type Failure, failureOf, isAgentAway } from "./refusal.js";
import { pauseMs, type RetryPolicy, verdict } from "./retry.js";
import { type LATE, linked, sleep, unlessAborted, within } from "./time.js";

/** Where the token is from, and how to have it. */
export interface TokenSource {
  /** As errors say it, such as `the file /etc/token`. */
  readonly named: string;
  /** The token of the next call. */
  text(): string | Promise<string>;
}

/** What a call may set for itself. */
export interface CallOptions {
  /** Ends the call. A promise rejects with a {@link CancelledError}, an iterator ends. */
  readonly signal?: AbortSignal | undefined;
  /** The time limit over all tries, in milliseconds; for a stream, until it is open. Default: that of the client. */
  readonly deadlineMs?: number | undefined;
}

/** What the calls of a client share. */
export interface CallConfig {
  readonly pool: GatewayPool;
  readonly token: TokenSource | undefined;
  readonly deadlineMs: number;
  readonly retry: RetryPolicy;
  /** The time of one try, in milliseconds, where a connection itself does not notice that nobody answers. */
  readonly tryMs: number;
  /** How long a watch goes on without any gateway, in milliseconds; infinite: for ever. */
  readonly patienceMs: number;
  /** A random number from 0 to 1. */
  readonly random: () => number;
}

/** A stream that is open. Its iterator throws a {@link Failed} if the stream breaks. */
export interface OpenStream<M> {
  readonly messages: AsyncIterator<M>;
  /** Ends it, and frees what it uses. */
  close(): void;
}

/** What a single try throws. */
export class Failed extends Error {
  constructor(readonly failure: Failure) {
    super(failure.error.message, { cause: failure.error });
  }
}

/** The tries of one call. */
class Tries {
  failed = 0;
  /** A try was sent, and its answer was lost. */
  lost = false;
  /** A try is under way. */
  open = false;
  last: Failure | undefined;
  /** What answered instead of a gateway, in any of the tries. It may close later connections at once. */
  stranger: string | undefined;
  /** The last refusal of a gateway that had too much to do. */
  busy: Failure | undefined;

  count(failure: Failure): void {
    this.failed += 1;
    this.last = failure;
    if (failure.from === "stranger") this.stranger ??= failure.what;
    if (failure.from === "connection" && failure.sent) this.lost = true;
  }
}

/** Sends calls to the gateways of a client. */
export class Calls {
  readonly #closed: AbortController;
  /** Changes are not made. */
  #isDryRun = false;

  constructor(
    readonly config: CallConfig,
    closed = new AbortController(),
  ) {
    this.#closed = closed;
  }

  /** The same, with changes that are not made: each ends with a {@link DryRunError}, or with its refusal. */
  dryRun(): Calls {
    const calls = new Calls(this.config, this.#closed);
    calls.#isDryRun = true;
    return calls;
  }

  /** Refuses every further try with a {@link ClosedError}, and ends the pauses between tries. */
  close(): void {
    this.#closed.abort();
  }

  /** One call: tries one gateway after the other until one answers or refuses, or the time is over. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    message: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const request = encoded(method, message);
    if (this.#isDryRun && !isRead(method.name)) {
      const asked = { method: `${method.parent.name}/${method.name}`, request };
      throw new DryRunError(method.name, await this.unary(DryRunService.method.dryRun, asked, options));
    }
    const { signal, deadlineMs = this.config.deadlineMs } = options;
    const send = async (gateway: PooledGateway, header: Headers, end: AbortSignal) => {
      const answer = await gateway.transport.unary(method, end, undefined, header, message);
      return answer.message;
    };
    return this.#repeat(method.name, send, signal, deadlineMs);
  }

  /**
   * Opens a stream with one try on the gateway in use. Returns {@link LATE} if that takes longer than `mostMs`.
   *
   * @throws Failed; {@link DryRunError} if the stream would change something and changes are not made.
   */
  async streamOnce<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    input: AsyncIterable<MessageInitShape<I>>,
    signal: AbortSignal | undefined,
    mostMs: number,
  ): Promise<OpenStream<MessageShape<O>> | typeof LATE> {
    if (this.#isDryRun && !isRead(method.name)) {
      if (this.#closed.signal.aborted) throw new ClosedError();
      // Nobody knows what a command would do.
      throw new DryRunError(method.name);
    }
    const late = new AbortController();
    const opening = linked(signal, late.signal);
    const send = (gateway: PooledGateway, header: Headers, end: AbortSignal) =>
      this.#open(method, input, gateway, header, end, signal);
    try {
      return await within(this.attempt(send, opening.signal), mostMs);
    } finally {
      // Without effect on a stream that is open.
      late.abort();
      opening.free();
    }
  }

  /** One try on the gateway in use. If that fails for reasons of its own, it is left for a while. */
  async attempt<T>(
    send: (gateway: PooledGateway, header: Headers, end: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const { pool, tryMs } = this.config;
    const header = await this.header();
    const gateway = pool.pick();
    const late = Number.isFinite(tryMs) ? AbortSignal.timeout(tryMs) : undefined;
    try {
      const answer = await send(gateway, header, late ? AbortSignal.any([signal, late]) : signal);
      pool.answered(gateway);
      return answer;
    } catch (thrown) {
      if (thrown instanceof Failed || signal.aborted) throw thrown;
      const failure = failureOf(late?.aborted ? new ConnectError("no answer", Code.DeadlineExceeded) : thrown);
      this.record(gateway, failure);
      throw new Failed(failure);
    }
  }

  /** Decides by a failure whether a gateway is used again. */
  record(gateway: PooledGateway, failure: Failure): void {
    const { pool } = this.config;
    // A gateway that says that an agent is away is well. Another one may have the agent.
    const away = failure.from === "gateway" && isAgentAway(failure.refusal);
    if (verdict(failure).next !== "repeat") pool.answered(gateway);
    else if (away) pool.rotate(gateway);
    else pool.failed(gateway);
  }

  /** The error of a failure without another try. */
  errorOf(failure: Failure, method: string): BoroughError {
    if (this.#closed.signal.aborted) return new ClosedError();
    if (failure.from === "gateway" && verdict(failure).next !== "repeat") return this.#refused(failure);
    const tries = new Tries();
    tries.count(failure);
    return this.#unreachable(tries, method);
  }

  /** The error of `attempts` tries without an answer. */
  unreachable(attempts: number, last: Failure | undefined, method: string): BoroughError {
    const tries = new Tries();
    if (last) tries.count(last);
    tries.failed = attempts;
    return this.#unreachable(tries, method);
  }

  /** The pause after so many failed tries. */
  pauseMs(attempts: number): number {
    return pauseMs(this.config.retry, attempts, this.config.random());
  }

  /** The error if a call was not over in time. */
  deadline(method: string, deadlineMs: number, cause?: unknown): DeadlineError {
    return new DeadlineError(method, deadlineMs, this.config.pool.addresses, !isRead(method), { cause });
  }

  async #repeat<T>(
    method: string,
    send: (gateway: PooledGateway, header: Headers, end: AbortSignal) => Promise<T>,
    signal: AbortSignal | undefined,
    deadlineMs: number,
  ): Promise<T> {
    const end = new AbortController();
    const link = linked(signal, end.signal, this.#closed.signal);
    const over = link.signal;
    const tries = new Tries();
    const timer = setTimeout(() => end.abort(), Math.min(deadlineMs, 2 ** 31 - 1));
    try {
      if (over.aborted) throw over.reason;
      return await unlessAborted(this.#attempts(method, send, tries, over, performance.now() + deadlineMs), over);
    } catch (thrown) {
      if (signal?.aborted) throw new CancelledError(signal.reason);
      if (this.#closed.signal.aborted) throw new ClosedError();
      if (!end.signal.aborted) throw thrown;
      if (tries.busy?.from === "gateway") throw this.#refused(tries.busy);
      // A lost answer leaves open whether the change was made, which is more than that nobody can be reached.
      const unknown = tries.open || tries.lost || tries.failed === 0;
      throw unknown ? this.deadline(method, deadlineMs, tries.last?.error) : this.#unreachable(tries, method);
    } finally {
      clearTimeout(timer);
      link.free();
    }
  }

  async #attempts<T>(
    method: string,
    send: (gateway: PooledGateway, header: Headers, end: AbortSignal) => Promise<T>,
    tries: Tries,
    over: AbortSignal,
    endsAt: number,
  ): Promise<T> {
    for (;;) {
      let failure: Failure;
      try {
        tries.open = true;
        return await this.attempt(send, over);
      } catch (thrown) {
        if (!(thrown instanceof Failed)) throw thrown;
        failure = thrown.failure;
      } finally {
        tries.open = false;
      }
      const { next, ...rest } = verdict(failure);
      const afterMs = "afterMs" in rest ? rest.afterMs : 0;
      if (next === "give_up" && failure.from === "gateway") throw this.#refused(failure);
      if (next === "wait") tries.busy = failure;
      else tries.count(failure);
      if (tries.failed >= this.config.retry.attemptsMax) throw this.#unreachable(tries, method);
      // Those that were refused together do not come back together.
      const pause = afterMs + this.pauseMs(next === "wait" ? 1 : tries.failed);
      const isTooLong = afterMs > 0 && performance.now() + afterMs >= endsAt;
      if (isTooLong && failure.from === "gateway") throw this.#refused(failure);
      await sleep(pause, over);
      if (over.aborted) throw over.reason;
    }
  }

  async #open<I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    input: AsyncIterable<MessageInitShape<I>>,
    gateway: PooledGateway,
    header: Headers,
    opening: AbortSignal,
    signal: AbortSignal | undefined,
  ): Promise<OpenStream<MessageShape<O>>> {
    const end = new AbortController();
    const stop = () => end.abort();
    // The deadline of the opening must not end the stream later.
    opening.addEventListener("abort", stop, { once: true });
    try {
      const { message } = await gateway.transport.stream(method, end.signal, undefined, header, input);
      opening.removeEventListener("abort", stop);
      if (opening.aborted) throw opening.reason;
      signal?.addEventListener("abort", stop, { once: true });
      const close = () => {
        signal?.removeEventListener("abort", stop);
        stop();
      };
      return { messages: this.#messages(message, gateway, end.signal, close), close };
    } catch (thrown) {
      opening.removeEventListener("abort", stop);
      throw thrown;
    }
  }

  async *#messages<M>(
    messages: AsyncIterable<M>,
    gateway: PooledGateway,
    end: AbortSignal,
    close: () => void,
  ): AsyncGenerator<M> {
    try {
      yield* messages;
    } catch (thrown) {
      // The caller has ended it, which says nothing of the gateway.
      if (end.aborted) throw thrown;
      const failure = failureOf(thrown);
      this.record(gateway, failure);
      throw new Failed(failure);
    } finally {
      close();
    }
  }

  /** The metadata of every call. */
  async header(): Promise<Headers> {
    if (this.#closed.signal.aborted) throw new ClosedError();
    const token = await this.config.token?.text();
    return new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` });
  }

  #refused(failure: Failure & { from: "gateway" }): BoroughError {
    const { refusal, error: cause } = failure;
    if (refusal.code !== "UNAUTHENTICATED") return new RefusedError(refusal, { cause });
    return new TokenRefusedError(this.config.pool.addresses, this.config.token?.named, refusal, { cause });
  }

  #unreachable(tries: Tries, method: string): BoroughError {
    const { addresses } = this.config.pool;
    const { last, stranger } = tries;
    const options = { cause: last?.error };
    if (stranger !== undefined) return new NotGatewayError(addresses, stranger, options);
    const refusal = last?.from === "gateway" ? last.refusal : undefined;
    return new UnreachableError(addresses, tries.failed, tries.lost && !isRead(method), refusal, options);
  }
}

/** Returns true if a call of this method changes nothing. */
export function isRead(method: string): boolean {
  return /^(Get|List|Plan|Explain|Read|Watch|Check|DryRun)/.test(method);
}

/** The encoding of a message. Refuses one that has none, such as one with a count of -1. */
function encoded<I extends DescMessage>(method: { name: string; input: I }, message: MessageInitShape<I>): Uint8Array {
  try {
    return toBinary(method.input, create(method.input, message));
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw invalid(method.name, said, "values that fit their fields");
  }
}

/** An input of one message. */
export async function* once<T>(value: T): AsyncGenerator<T> {
  yield value;
}
