/** The operations of the scenarios. */

import { setTimeout as sleep } from "node:timers/promises";
import { JobState } from "../src/messages.js";
import { type BoroughClient, listOf } from "../src/node.js";
import { type Alike, EndpointLog } from "./endpoints.js";
import { check } from "./expect.js";
import { federatedCall } from "./federated.js";
import { jobSpec } from "./job.js";
import { joinCall, keysCall } from "./joins.js";
import { clientOf, fault, type Json, type World } from "./world.js";

/** How long a step waits unless it says otherwise, in milliseconds. */
const WITHIN_MS = 20_000;
const PAUSE_MS = 20;

/** What the steps of a scenario share. */
export class Stage {
  readonly #saved = new Map<string, string>();
  readonly #watches = new Map<string, EndpointLog>();
  readonly #clients: BoroughClient[] = [];
  readonly #jobs = new Set<string>();
  #client: BoroughClient;

  constructor(private readonly world: World) {
    this.#client = this.#made({});
  }

  /** Carries out one step, and checks what came of it. */
  async step(given: Json): Promise<void> {
    const step = this.#filled(given) as Json;
    const begun = performance.now();
    let thrown: unknown;
    try {
      await this.#operation(step);
    } catch (error) {
      thrown = error;
    }
    check(step, thrown);
    const [took, least] = [performance.now() - begun, Number(step.at_least ?? 0)];
    if (took < least) throw new Error(`it took ${took} ms; at least ${least} ms was expected`);
  }

  /** Stops the jobs of the scenario, and ends what it has opened. */
  async clean(): Promise<void> {
    await fault(this.world, { kind: "heal" });
    for (const watch of this.#watches.values()) await watch.end();
    const client = this.#made({});
    for (const job of this.#jobs) await client.jobs.stop(job).catch(() => {});
    for (const each of this.#clients) each.close();
  }

  #made(options: Json): BoroughClient {
    const client = clientOf(this.world, options);
    this.#clients.push(client);
    return client;
  }

  /** The value with what its texts name. */
  #filled(value: unknown): unknown {
    if (typeof value === "string") {
      const known = (name: string) => this.#saved.get(name) ?? (this.world as unknown as Json)[name];
      return value.replace(/\$\{(\w+)\}/g, (whole, name: string) => String(known(name) ?? whole));
    }
    if (Array.isArray(value)) return value.map((item) => this.#filled(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.#filled(item)]));
  }

  async #operation(step: Json): Promise<void> {
    const operations: Record<string, (step: Json) => unknown> = {
      client: () => {
        this.#client = this.#made(step);
      },
      fault: () => fault(this.world, step),
      pause: () => sleep(Number(step.for)),
      together: () => together((step.steps as Json[]).map((each) => this.step(each))),
      same: ({ values }) => holds(new Set(values as string[]).size === 1, values),
      build: () => jobSpec(step.job as Json),
      submit: () => this.#submit(step),
      scale: () => this.#client.jobs.scale(step.job as string, step.count as number),
      stop: () => this.#client.jobs.stop(step.job as string),
      signal: () => this.#client.tasks.signal(step.task as string, step.signal as number),
      get: () => this.#get(step),
      wait: () => this.#wait(step),
      list: () => this.#list(step),
      federated: () => this.#federated(step),
      join: async () => expected(step, await joinCall(this.#client, step)),
      keys: async () => expected(step, await keysCall(this.#client, step)),
      watch: () => {
        this.#watches.set(step.watch as string, new EndpointLog(this.#client, step.job as string));
      },
      until: () => this.#until(step),
      items: () => this.#items(step),
      audit: () => this.#audit(step),
      unwatch: () => this.#unwatch(step),
      logs: () => this.#logs(step),
      exec: () => this.#exec(step),
      resolve: () => this.#resolve(step),
    };
    const operation = operations[step.do as string];
    if (!operation) throw new Error(`no operation ${step.do}`);
    await operation(step);
  }

  async #submit(step: Json): Promise<void> {
    const spec = jobSpec(step.job as Json);
    this.#jobs.add(spec.name);
    const { job } = await this.#client.jobs.submit(spec, { requestId: step.request_id as string | undefined });
    if (step.save !== undefined) this.#saved.set(step.save as string, job.id);
  }

  async #get(step: Json): Promise<void> {
    const { job } = await this.#client.jobs.get(step.job as string);
    const runs = job.state === JobState.RUNNING || job.state === JobState.STOPPING;
    const state = job.state === JobState.WAITING ? "queued" : runs ? "running" : "ended";
    const found: Json = { count: job.count, version: job.specVersion, state };
    expected(step, found);
  }

  async #federated(step: Json): Promise<void> {
    expected(step, await federatedCall(this.#client.federated, step));
  }

  async #wait(step: Json): Promise<void> {
    const goal = step.for as "healthy" | "ended";
    const waited = await this.#client.jobs.wait(step.job as string, { for: goal, timeout: within(step) });
    holds(step.outcome === undefined || waited.outcome === step.outcome, `${waited.outcome}: ${waited.why}`);
  }

  async #list(step: Json): Promise<void> {
    const { jobs, tasks, names, federated } = this.#client;
    const { job } = step as { job?: string };
    const options = { pageSize: step.page as number };
    const of = job === undefined ? {} : { job };
    const rowsOf: Record<string, () => Promise<[name: string, row: string][]>> = {
      jobs: async () => (await listOf(jobs.list({}, options))).map(({ name, id }) => [name, id]),
      tasks: async () => (await listOf(tasks.list(of, options))).map((row) => [row.job, `${row.job}/${row.index}`]),
      federated: async () => (await listOf(federated.list({}, options))).map(({ name, id }) => [name, id]),
      endpoints: async () => (await listOf(names.list(of, options))).map((row) => [row.job, row.name]),
    };
    const rows = (await rowsOf[step.what as string]?.()) ?? [];
    const found = rows.filter(([name]) => job === undefined || name === job).map(([, row]) => row);
    holds(new Set(found).size === found.length, `a row comes twice: ${found}`);
    holds(step.count === undefined || found.length === step.count, `${found.length} rows: ${found}`);
  }

  #watch(step: Json): EndpointLog {
    const watch = this.#watches.get(step.watch as string);
    if (!watch) throw new Error(`no watch ${step.watch}`);
    return watch;
  }

  async #until(step: Json): Promise<void> {
    const watch = this.#watch(step);
    const expected = String(step.live);
    const is = await until(within(step), () => {
      return watch.live !== undefined && String(watch.live) === expected && watch.all(step as Alike);
    });
    holds(is, `the endpoints are ${watch.live}, or have other fields`);
  }

  async #items(step: Json): Promise<void> {
    const { counts } = this.#watch(step);
    const isWithin = (
      count: number,
      { min = 0, max = Number.POSITIVE_INFINITY }: { min?: number; max?: number } = {},
    ) => count >= min && count <= max;
    const asSaid = () =>
      Object.entries(counts).every(([kind, count]) => isWithin(count, step[kind] as object | undefined));
    holds(await until(Number(step.within ?? 0), asSaid), counts);
  }

  async #audit(step: Json): Promise<void> {
    let problem: string | undefined;
    const isSound = async () => {
      problem = await this.#watch(step).problem();
      return problem === undefined;
    };
    holds(await until(WITHIN_MS, isSound), problem);
  }

  async #unwatch(step: Json): Promise<void> {
    const watch = this.#watch(step);
    this.#watches.delete(step.watch as string);
    await watch.end();
  }

  async #logs(step: Json): Promise<void> {
    const signal = AbortSignal.timeout(within(step));
    const decoder = new TextDecoder();
    let text = "";
    for await (const item of this.#client.tasks.logs(step.task as string, { follow: step.follow === true, signal })) {
      if (item.type === "output") text += decoder.decode(item.data, { stream: true });
      if (text.includes(step.contains as string)) return;
    }
    holds(false, `the output is ${JSON.stringify(text)}`);
  }

  async #exec(step: Json): Promise<void> {
    const input = (step.input as string | undefined) ?? "";
    const { stdout, code } = await this.#client.tasks.run(step.task as string, step.command as string[], { input });
    const output = new TextDecoder().decode(stdout);
    const asSaid = (step.output ?? output) === output && (step.exit ?? code) === code;
    holds(asSaid, `${code}: ${JSON.stringify(output)}`);
  }

  async #resolve(step: Json): Promise<void> {
    const signal = AbortSignal.timeout(within(step));
    let last: readonly string[] = [];
    for await (const list of this.#client.names.addresses(step.job as string, step.port as string, { signal })) {
      last = list.map(({ host, port }) => `${host}:${port}`);
      if (last.length === step.count && new Set(last).size === last.length) return;
    }
    holds(false, `the addresses are ${last}`);
  }
}

/** Waits for all, and fails with the first that failed. */
async function together(steps: Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(steps)).find((step) => step.status === "rejected");
  if (failed) throw failed.reason;
}

function within(step: Json): number {
  return Number(step.within ?? WITHIN_MS);
}

function holds(asSaid: boolean, found: unknown): void {
  if (!asSaid) throw new Error(`found: ${typeof found === "string" ? found : JSON.stringify(found)}`);
}

/** Compares what a step found with what it expects. */
function expected(step: Json, found: Json): void {
  const entries = Object.entries((step.expect as Json | undefined) ?? {});
  holds(
    entries.every(([key, value]) => found[key] === value),
    found,
  );
}

/** Waits until it holds. Returns false if it does not in time. */
async function until(limitMs: number, is: () => boolean | Promise<boolean>): Promise<boolean> {
  const end = performance.now() + limitMs;
  for (;;) {
    if (await is()) return true;
    if (performance.now() >= end) return false;
    await sleep(PAUSE_MS);
  }
}
