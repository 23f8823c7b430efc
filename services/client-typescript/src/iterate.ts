/** Async iterators that end when their caller wants it, also while they wait. */

import { linked } from "./time.js";

/**
 * An iterator over what `generate` yields. It ends without an error when `signal` aborts, and when the caller leaves
 * its loop: a generator alone would wait for its next item first.
 */
export function cancellable<T>(
  generate: (signal: AbortSignal) => AsyncGenerator<T, void>,
  signal?: AbortSignal,
): AsyncIterableIterator<T> {
  const left = new AbortController();
  const link = linked(signal, left.signal);
  const items = generate(link.signal);
  const over = { done: true, value: undefined } as const;
  const leave = async () => {
    left.abort();
    link.free();
    // The end of a broken stream is an end.
    await items.return().catch(() => {});
    return over;
  };
  return {
    async next() {
      if (link.signal.aborted) return leave();
      try {
        const item = await items.next();
        if (item.done) link.free();
        return item;
      } catch (error) {
        link.free();
        if (link.signal.aborted) return over;
        throw error;
      }
    },
    return: leave,
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** A page of a list. */
export interface Page<T> {
  readonly rows: readonly T[];
  /** Empty on the last page. */
  readonly nextPage: string;
}

/** The rows of all pages, one after the other. Asks for a page only when the rows before it are used. */
export function rowsOf<T>(
  read: (page: string, signal: AbortSignal) => Promise<Page<T>>,
  signal?: AbortSignal,
): AsyncIterableIterator<T> {
  return cancellable(async function* (end) {
    let page = "";
    do {
      const answer = await read(page, end);
      yield* answer.rows;
      page = answer.nextPage;
    } while (page !== "");
  }, signal);
}

/** All items of an iterator, as a list. */
export async function listOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
