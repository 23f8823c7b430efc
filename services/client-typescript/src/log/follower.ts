/**
 * Reads the output of one attempt. A broken connection, a gateway that ends and an agent that changes its gateway cost
 * no byte and repeat none. Each answer has a position, and the next request begins there.
 */

import { type Calls, Failed, type OpenStream, once } from "../calls.js";
import type { BoroughError, Refusal } from "../errors.js";
import {
  type ReadLogsRequest,
  ReadLogsRequest_Stream,
  type ReadLogsResponse,
  TaskService,
} from "../gen/borough/v1/task_pb.js";
import { type GatewayAbsence, Outage } from "../outage.js";
import { type Failure, isAgentAway, isNodeSilent } from "../refusal.js";
import { verdict } from "../retry.js";
import { LATE, sleep, within } from "../time.js";
import { LogResumption } from "./resumption.js";

/** How long an agent has for its first answer before the reader is notified that it waits, in milliseconds. */
const ANSWER_WAIT_MS = 3_000;
/** Tries after which the reader is notified that an agent has lost its connection. Most are back sooner. */
const AWAY_REPORTED = 8;

/** What a read of a log gives. */
export type LogItem =
  /** Output of one stream. */
  | {
      readonly type: "output";
      readonly stream: "stdout" | "stderr";
      readonly data: Uint8Array;
      /** The attempt that wrote it. */
      readonly incarnation: bigint;
      /** When its parts were written; empty unless the read asked for it. `at`: bytes of `data` before the part. */
      readonly times: readonly { readonly at: number; readonly time: Date }[];
    }
  /** Output that was removed before this read had it. */
  | { readonly type: "gone"; readonly stream: "stdout" | "stderr"; readonly bytes: bigint }
  /** The read goes on by itself later. It says once what it waits for: an agent, or a gateway. */
  | { readonly type: "waits"; readonly for: "answer" }
  | { readonly type: "waits"; readonly for: "agent"; readonly refusal: Refusal }
  | ({ readonly type: "waits"; readonly for: "gateway" } & GatewayAbsence);

type Wait = Extract<LogItem, { type: "waits" }>;

/** Why a stream of a log has ended. */
class LogBreak extends Error {
  constructor(readonly failure: Failure | undefined) {
    super("a read of a log has broken");
  }
}

/** A read of the output of one attempt. */
export class LogFollower {
  readonly #resumption: LogResumption;
  /** Tries in a row without an answer. */
  #attempts = 0;
  #outage: Outage | undefined;
  #failure: Failure | undefined;
  /** What the reader was last notified of. */
  #reported: Wait | undefined;

  constructor(
    private readonly calls: Calls,
    request: ReadLogsRequest,
  ) {
    this.#resumption = new LogResumption(request);
  }

  /** The output until its end, or until `signal` aborts. Throws if the gateway refuses. */
  async *items(signal: AbortSignal): AsyncGenerator<LogItem, void> {
    while (!signal.aborted) {
      let stream: OpenStream<ReadLogsResponse> | undefined;
      try {
        stream = await this.#open(signal);
        if (stream) {
          yield* this.#answers(stream);
          return;
        }
        yield* this.#report({ type: "waits", for: "gateway", error: this.#unreachable(), ...this.#absence() });
      } catch (thrown) {
        if (signal.aborted) return;
        if (!(thrown instanceof LogBreak)) throw thrown;
        yield* this.#broken(thrown.failure);
        await sleep(this.calls.pauseMs(this.#attempts), signal);
      } finally {
        stream?.close();
      }
    }
  }

  /** Opens the stream. Absent: it takes so long that the reader must be notified first. */
  async #open(signal: AbortSignal): Promise<OpenStream<ReadLogsResponse> | undefined> {
    const step = this.#outage?.step(performance.now());
    if (step === "give_up") throw this.#unreachable();
    if (step === "report") return undefined;
    const { deadlineMs } = this.calls.config;
    const most = Math.min(deadlineMs, this.#outage?.nextInMs(performance.now()) ?? Number.POSITIVE_INFINITY);
    const { readLogs } = TaskService.method;
    const opening = this.calls.streamOnce(readLogs, once(this.#resumption.request), signal, most);
    const result = await opening.catch((thrown: unknown) => {
      throw thrown instanceof Failed ? this.#sorted(thrown.failure) : thrown;
    });
    if (result !== LATE) return result;
    if (most >= deadlineMs) throw new LogBreak(undefined);
    return this.#open(signal);
  }

  /** The output of an open stream. Returns at the end of the output; throws a {@link LogBreak} if the stream breaks. */
  async *#answers({ messages }: OpenStream<ReadLogsResponse>): AsyncGenerator<LogItem, void> {
    let answered = false;
    let next = messages.next();
    for (;;) {
      const patient = answered || this.#reported !== undefined || this.#outage !== undefined;
      const waited = within(next, patient ? Number.POSITIVE_INFINITY : ANSWER_WAIT_MS);
      const result = await waited.catch((thrown: unknown) => {
        throw thrown instanceof Failed ? this.#sorted(thrown.failure) : thrown;
      });
      if (result === LATE) {
        yield* this.#report({ type: "waits", for: "answer" });
        continue;
      }
      if (result.done) {
        if (this.#resumption.positioned) throw new LogBreak(undefined);
        return;
      }
      answered = true;
      this.#answered();
      this.#resumption.delivered(result.value);
      yield* itemsOf(result.value);
      if (result.value.end) return;
      next = messages.next();
    }
  }

  #answered(): void {
    this.#attempts = 0;
    this.#outage = undefined;
    this.#failure = undefined;
    this.#reported = undefined;
  }

  /** Counts a try without an answer, and says what is waited for if the reader must know. */
  *#broken(failure: Failure | undefined): Generator<LogItem> {
    this.#attempts += 1;
    if (failure?.from === "gateway" && isAgentAway(failure.refusal)) {
      // A gateway that says so answers.
      this.#outage = undefined;
      this.#failure = undefined;
      const { refusal } = failure;
      if (isNodeSilent(refusal) || this.#attempts >= AWAY_REPORTED) {
        yield* this.#report({ type: "waits", for: "agent", refusal });
      }
      return;
    }
    this.#outage ??= new Outage(performance.now(), this.calls.config.patienceMs);
    this.#failure = failure ?? this.#failure;
  }

  /** Notifies the reader, unless it knows. */
  *#report(wait: Wait): Generator<LogItem> {
    const known = this.#reported;
    this.#reported = wait;
    // The seconds in the text of a refusal change all the time.
    const reason = (of: Wait | undefined) => (of?.for === "agent" ? of.refusal.reason : of?.for);
    if (reason(known) !== reason(wait)) yield wait;
  }

  /** A failure that another try may mend, or the error of one that it cannot. */
  #sorted(failure: Failure): LogBreak | BoroughError {
    const waits = this.#resumption.request.follow && failure.from === "gateway" && isNodeSilent(failure.refusal);
    const mayGoOn = (waits || verdict(failure).next !== "give_up") && !this.#resumption.lost;
    return mayGoOn ? new LogBreak(failure) : this.calls.errorOf(failure, TaskService.method.readLogs.name);
  }

  #absence(): Partial<GatewayAbsence> {
    return this.#outage?.absence(this.#unreachable(), performance.now()) ?? {};
  }

  #unreachable(): BoroughError {
    return this.calls.unreachable(this.#attempts, this.#failure, TaskService.method.readLogs.name);
  }
}

function itemsOf(answer: ReadLogsResponse): LogItem[] {
  const stream = answer.stream === ReadLogsRequest_Stream.STDERR ? "stderr" : "stdout";
  const items: LogItem[] = [];
  if (answer.goneBytes > 0n) items.push({ type: "gone", stream, bytes: answer.goneBytes });
  if (answer.data.length > 0) {
    const times = answer.times.map(({ at, ms }) => ({ at, time: new Date(Number(ms)) }));
    items.push({ type: "output", stream, data: answer.data, incarnation: answer.incarnation, times });
  }
  return items;
}
