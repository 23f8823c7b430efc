/** Keeps a stream of a gateway open over broken connections, by the rules of {@link Resumption}. */

import { type Calls, Failed, type OpenStream } from "../calls.js";
import type { Cursor } from "../gen/borough/v1/common_pb.js";
import { type GatewayAbsence, Outage } from "../outage.js";
import type { Failure } from "../refusal.js";
import { verdict } from "../retry.js";
import { LATE, sleep, within } from "../time.js";
import { isBefore, Resumption } from "./resumption.js";

/** A stream that stays open so long without a message shows that a gateway answers again. */
const ANSWERED_AFTER_MS = 1_000;
/** A gateway sends a bookmark after ten seconds of silence. A stream without three of them is broken. */
const STALLED_AFTER_MS = 30_000;

/** A kind of watch: how to open it, and how to read its messages. */
export interface Feed<M> {
  /** The name of the call. */
  readonly method: string;
  /** Opens the stream after `resume`, or with a snapshot, within so many milliseconds. Throws a {@link Failed}. */
  open(resume: Cursor | undefined, signal: AbortSignal, mostMs: number): Promise<OpenStream<M> | typeof LATE>;
  cursor(message: M): Cursor | undefined;
  /** Returns true if more changes of the same commit follow, with the same cursor. */
  isFollowed(message: M): boolean;
  /** Returns true if the message has a change that this version knows. */
  isChange(message: M): boolean;
}

/** An item of a follower. */
export type Followed<M> =
  /**
   * A change, once. The cursor is absent if more changes of the same commit follow: a watch from it would miss them.
   */
  | { readonly type: "change"; readonly message: M; readonly cursor?: Cursor }
  /** Everything up to the cursor was yielded. */
  | { readonly type: "bookmark"; readonly cursor: Cursor }
  /** The stream started again inside an incomplete snapshot: discard what was yielded of it. */
  | { readonly type: "snapshot_void" }
  /** The gateway cannot resume the watch, and says why. The next stream starts with a snapshot. */
  | { readonly type: "trimmed"; readonly why: string }
  /** No gateway answers. Comes once until the next message. */
  | ({ readonly type: "absent" } & GatewayAbsence);

/** A stream that was opened, and since when. */
interface Opened<M> {
  readonly stream: OpenStream<M>;
  readonly sinceMs: number;
}

/** Why a stream is not, or no longer, open. */
class Break extends Error {
  constructor(readonly failure: Failure | undefined) {
    super("a watch has broken");
  }
}

/** A watch after `base`, or one that starts with a snapshot. */
export class WatchFollower<M> {
  #resumption: Resumption;
  /** The newest cursor that was yielded. */
  #seen: Cursor | undefined;
  /** Tries in a row without a message. */
  #attempts = 0;
  #outage: Outage | undefined;
  #failure: Failure | undefined;
  /** The reader was notified that no gateway answers, and nothing has come since. */
  #reported = false;

  constructor(
    private readonly calls: Calls,
    private readonly feed: Feed<M>,
    base: Cursor | undefined,
  ) {
    this.#resumption = new Resumption(base);
    this.#seen = base;
  }

  /** Everything that happens, until `signal` aborts. Throws if the gateway refuses, or if patience has ended. */
  async *items(signal: AbortSignal): AsyncGenerator<Followed<M>, void> {
    while (!signal.aborted) {
      let opened: Opened<M> | undefined;
      try {
        opened = await this.#open(signal);
        if (opened === undefined) {
          yield this.#absence();
          continue;
        }
        yield* this.#messages(opened);
      } catch (thrown) {
        if (signal.aborted) return;
        if (!(thrown instanceof Break)) throw thrown;
        const item = this.#broken(thrown.failure, opened?.sinceMs);
        if (item) yield item;
        if (item?.type !== "trimmed" || this.#attempts > 1) await sleep(this.calls.pauseMs(this.#attempts), signal);
      } finally {
        opened?.stream.close();
      }
    }
  }

  /** Opens the stream. Absent: it takes so long that the reader must be notified first. */
  async #open(signal: AbortSignal): Promise<Opened<M> | undefined> {
    const { deadlineMs } = this.calls.config;
    const step = this.#outage?.step(performance.now());
    if (step === "give_up") throw this.#unreachable();
    if (step === "report") return undefined;
    const most = Math.min(deadlineMs, this.#outage?.nextInMs(performance.now()) ?? Number.POSITIVE_INFINITY);
    const result = await this.feed.open(this.#resumption.reopened(), signal, most).catch((thrown: unknown) => {
      throw thrown instanceof Failed ? new Break(thrown.failure) : thrown;
    });
    if (result !== LATE) return { stream: result, sinceMs: performance.now() };
    if (most >= deadlineMs) throw new Break(undefined);
    return this.#open(signal);
  }

  /** The items of an open stream. Throws a {@link Break} at its end. */
  async *#messages({ stream }: Opened<M>): AsyncGenerator<Followed<M>> {
    const { messages } = stream;
    let next = this.#next(messages);
    for (;;) {
      const result = await within(next, this.#reported ? ANSWERED_AFTER_MS : STALLED_AFTER_MS);
      if (result === LATE && !this.#reported) throw new Break(undefined);
      if (result === LATE) {
        // Nothing has changed, and the reader must not wait for the next change to learn that this goes on.
        this.#answered();
        const cursor = this.#resumption.reopened();
        if (cursor) yield { type: "bookmark", cursor };
        continue;
      }
      // A gateway ends a watch only when it shuts down.
      if (result.done) throw new Break(undefined);
      this.#answered();
      const item = this.#item(result.value);
      next = this.#next(messages);
      // The caller may leave before it is read.
      next.catch(() => {});
      if (item) yield item;
    }
  }

  async #next(messages: AsyncIterator<M>): Promise<IteratorResult<M>> {
    try {
      return await messages.next();
    } catch (thrown) {
      throw thrown instanceof Failed ? new Break(thrown.failure) : thrown;
    }
  }

  #item(message: M): Followed<M> | undefined {
    const cursor = this.feed.cursor(message);
    if (cursor === undefined) return undefined;
    const followed = this.feed.isFollowed(message);
    if (!this.feed.isChange(message)) {
      // What a newer gateway says beside the changes. The rest of its commit follows.
      if (followed) return undefined;
      if (this.#resumption.inSnapshot && this.#seen && isBefore(cursor, this.#seen)) {
        // The snapshot of a gateway that is behind would take back what was yielded.
        throw new Break(undefined);
      }
      this.#resumption.complete(cursor);
      this.#seen = cursor;
      return { type: "bookmark", cursor };
    }
    const isNew = this.#resumption.accept(cursor);
    if (!followed && !this.#resumption.inSnapshot) this.#resumption.complete(cursor);
    if (!isNew) return undefined;
    if (!this.#resumption.inSnapshot) this.#seen = cursor;
    return followed ? { type: "change", message } : { type: "change", message, cursor };
  }

  #answered(): void {
    this.#attempts = 0;
    this.#outage = undefined;
    this.#failure = undefined;
    this.#reported = false;
  }

  /** Prepares the next stream. Returns an item if the reader must know. */
  #broken(failure: Failure | undefined, openSinceMs: number | undefined): Followed<M> | undefined {
    const now = performance.now();
    // A stream that was open for a while was answered, even if it had nothing to say.
    if (openSinceMs !== undefined && now - openSinceMs >= ANSWERED_AFTER_MS) this.#answered();
    this.#attempts += 1;
    if (failure?.from === "gateway" && failure.refusal.code === "OUT_OF_RANGE") {
      this.#resumption = new Resumption();
      return { type: "trimmed", why: failure.refusal.message };
    }
    if (failure && verdict(failure).next === "give_up") throw this.calls.errorOf(failure, this.feed.method);
    this.#outage ??= new Outage(now, this.calls.config.patienceMs);
    this.#failure = failure ?? this.#failure;
    return this.#resumption.inSnapshot ? { type: "snapshot_void" } : undefined;
  }

  #absence(): Followed<M> {
    this.#reported = true;
    const absence = this.#outage?.absence(this.#unreachable(), performance.now());
    return { type: "absent", error: this.#unreachable(), ...absence };
  }

  #unreachable() {
    return this.calls.unreachable(this.#attempts, this.#failure, this.feed.method);
  }
}
