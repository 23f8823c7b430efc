/** A watch of a scenario: everything that it has shown. */

import { equals } from "@bufbuild/protobuf";
import { type Cursor, type Endpoint, EndpointSchema } from "../src/messages.js";
import { type BoroughClient, type EndpointItem, listOf } from "../src/node.js";

/** What all endpoints of a watch have. */
export interface Alike {
  readonly weight?: number;
  readonly labels?: Record<string, string>;
}

/** Follows the endpoints of a job in the background. */
export class EndpointLog {
  readonly counts = { snapshots: 0, resyncs: 0, absences: 0, withdrawals: 0 };
  readonly #live = new Map<number, Endpoint>();
  readonly #withdrawn = new Map<number, bigint>();
  readonly #problems: string[] = [];
  readonly #end = new AbortController();
  readonly #followed: Promise<void>;
  #cursor: Cursor | undefined;

  constructor(
    private readonly client: BoroughClient,
    private readonly job: string,
  ) {
    this.#followed = this.#follow().catch((error: unknown) => {
      this.#problems.push(`the watch failed: ${error}`);
    });
  }

  /** The indexes of what is published; absent before the first snapshot. */
  get live(): number[] | undefined {
    return this.counts.snapshots > 0 ? [...this.#live.keys()].sort((one, other) => one - other) : undefined;
  }

  /** Whether each published endpoint has this weight and these labels, as far as they are given. */
  all({ weight, labels }: Alike): boolean {
    const text = (given: Record<string, string>) => JSON.stringify(Object.entries(given).sort());
    return [...this.#live.values()].every(
      (endpoint) =>
        (weight === undefined || endpoint.weight === weight) &&
        (labels === undefined || text(endpoint.labels) === text(labels)),
    );
  }

  /** What was lost or repeated so far. Absent: nothing, and what is published equals a fresh list. */
  async problem(): Promise<string | undefined> {
    const listed = await listOf(this.client.names.list({ job: this.job }));
    if (this.#problems.length > 0) return this.#problems.join("; ");
    const attempts = (endpoints: Iterable<Endpoint>) =>
      [...endpoints]
        .map(({ index, incarnation }) => `${index}:${incarnation}`)
        .sort()
        .join(" ");
    const [live, fresh] = [attempts(this.#live.values()), attempts(listed)];
    return live === fresh ? undefined : `shown: ${live}, listed: ${fresh}`;
  }

  /** Ends the watch. Fails if it does not end, or leaves something open. */
  async end(): Promise<void> {
    const streams = () => process.getActiveResourcesInfo().filter((name) => name !== "Timeout").length;
    const before = streams();
    this.#end.abort();
    const late = AbortSignal.timeout(5_000);
    const timeout = new Promise<"late">((resolve) => late.addEventListener("abort", () => resolve("late")));
    if ((await Promise.race([this.#followed, timeout])) === "late") throw new Error("the watch does not end");
    // A connection that was just cut takes some turns of the event loop to go.
    while (streams() > before) {
      if (late.aborted) throw new Error(`it leaves open: ${process.getActiveResourcesInfo()}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async #follow(): Promise<void> {
    for await (const item of this.client.names.watch(this.job, { signal: this.#end.signal })) this.#take(item);
    if (!this.#end.signal.aborted) this.#problems.push("the watch ended by itself");
  }

  #take(item: EndpointItem): void {
    if ("cursor" in item && item.cursor) this.#at(item.cursor);
    switch (item.type) {
      case "snapshot":
        this.counts.snapshots += 1;
        this.#live.clear();
        for (const endpoint of item.endpoints) this.#published(endpoint);
        break;
      case "published":
        this.#published(item.endpoint);
        break;
      case "withdrawn":
        this.counts.withdrawals += 1;
        this.#gone(item.endpoint.index, item.endpoint.incarnation);
        break;
      case "resync":
        this.counts.resyncs += 1;
        break;
      case "absent":
        this.counts.absences += 1;
        break;
    }
  }

  #published(endpoint: Endpoint): void {
    const { index, incarnation } = endpoint;
    const known = this.#live.get(index);
    if (incarnation <= (this.#withdrawn.get(index) ?? -1n))
      this.#problems.push(`${incarnation} of ${index} comes back`);
    if (known && equals(EndpointSchema, known, endpoint)) this.#problems.push(`${index} is published twice alike`);
    this.#live.set(index, endpoint);
  }

  #gone(index: number, incarnation: bigint): void {
    const before = this.#withdrawn.get(index) ?? 0n;
    this.#withdrawn.set(index, incarnation > before ? incarnation : before);
    if (!this.#live.delete(index)) this.#problems.push(`${index} is withdrawn twice`);
  }

  #at(cursor: Cursor): void {
    const known = this.#cursor;
    const isBack = known?.storeEpoch === cursor.storeEpoch && Buffer.compare(known.stamp, cursor.stamp) > 0;
    if (isBack) this.#problems.push("a cursor goes back");
    this.#cursor = cursor;
  }
}
