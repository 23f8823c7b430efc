/** Waiting, with an end. */

/** Resolves after so many milliseconds, or at once if `signal` aborts. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}

/** The result of {@link within} if the time was over first. */
export const LATE = Symbol("late");

/** What `promise` comes to, or {@link LATE} if that takes longer than `ms`. The promise goes on. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T | typeof LATE> {
  if (ms === Number.POSITIVE_INFINITY) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(() => resolve(LATE), Math.max(ms, 0));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** What `promise` comes to. Rejects with the reason of `signal` if that aborts first. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** A signal that aborts when one of others does, and can be taken off them. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Takes it off the others. `AbortSignal.any` stays on a signal of a long life for as long as that lives. */
  free(): void;
}

/** What is linked to a signal. A signal has one listener for all of it: Node warns of more than ten. */
const LINKS = new WeakMap<AbortSignal, Set<AbortController>>();

/** A signal that aborts when one of `signals` does. */
export function linked(...signals: (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const links = signals.filter((signal) => signal !== undefined).map(linksOf);
  for (const signal of signals) if (signal?.aborted) controller.abort(signal.reason);
  for (const link of links) link.add(controller);
  const free = () => {
    for (const link of links) link.delete(controller);
  };
  return { signal: controller.signal, free };
}

function linksOf(signal: AbortSignal): Set<AbortController> {
  const known = LINKS.get(signal);
  if (known) return known;
  const links = new Set<AbortController>();
  LINKS.set(signal, links);
  const abort = () => {
    for (const controller of links) controller.abort(signal.reason);
    links.clear();
  };
  signal.addEventListener("abort", abort, { once: true });
  return links;
}
