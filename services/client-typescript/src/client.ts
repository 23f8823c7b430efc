/** The client: one handle of a set of gateways, for calls of one user to one cell. */

import type { Transport } from "@connectrpc/connect";
import { Access } from "./access.js";
import { gatewayUrl } from "./address.js";
import { Audit } from "./audit.js";
import { type CallOptions, Calls, type TokenSource } from "./calls.js";
import { Cells } from "./cells.js";
import { CellContext, present } from "./context.js";
import { invalid } from "./errors.js";
import { FederatedJobs } from "./federated.js";
import type { Cursor } from "./gen/borough/v1/common_pb.js";
import { type Event, WatchService } from "./gen/borough/v1/watch_pb.js";
import { Health, HealthCheckResponse_ServingStatus } from "./gen/grpc/health/v1/health_pb.js";
import { cancellable } from "./iterate.js";
import { Jobs } from "./jobs.js";
import { Joins } from "./joins.js";
import { Members } from "./members.js";
import { Names, type WatchOptions } from "./names.js";
import { Nodes } from "./nodes.js";
import { type GatewayConnection, GatewayPool, type PooledGateway } from "./pool.js";
import { Quotas } from "./quotas.js";
import { named } from "./refs.js";
import { failureOf } from "./refusal.js";
import { RETRY_DEFAULT, type RetryPolicy } from "./retry.js";
import { Tasks } from "./tasks.js";
import { type CellFilter, type CellItem, cellItems } from "./watch/cell.js";

/** The time limit of a call unless it is given, in milliseconds. */
export const DEADLINE_MS = 10_000;

/** What a client is made of, in Node and in browsers. */
export interface CommonOptions {
  /**
   * Addresses of gateways: `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. Calls stay with one until it fails.
   */
  readonly gateways: string | readonly string[];
  /** The user of the calls. */
  readonly user: string;
  /** The cell of the calls. */
  readonly cell: string;
  /** The time limit of one call with all its tries, in milliseconds. Default: 10,000. */
  readonly deadlineMs?: number;
  /** How often and how fast calls are tried again. Default: six tries over about a second and a half. */
  readonly retry?: Partial<RetryPolicy>;
  /** A watch gives up if no gateway has answered it for so long, in milliseconds. Default: it never does. */
  readonly watchPatienceMs?: number;
}

/** How a gateway is. */
export interface GatewayHealth {
  /** Its address as it was given. */
  readonly address: string;
  /** `serving`; `not_serving`: it answers, and cannot do its work; `unreachable`: it does not answer. */
  readonly state: "serving" | "not_serving" | "unreachable";
  /** Whether calls leave it for a while, because it has failed. */
  readonly resting: boolean;
}

/** What an event list returns. */
export interface EventList {
  /** The events, newest last. */
  readonly events: readonly Event[];
  /** Whether older events are gone. */
  readonly trimmed: boolean;
  /** A watch from here misses nothing. */
  readonly cursor: Cursor | undefined;
}

/** What the environment of a client provides. */
export interface Platform {
  /** Whether streams in both directions are possible. */
  readonly canExec: boolean;
  /** Whether the client encrypts, so that an address without a scheme is `https`. */
  readonly isEncrypted: boolean;
  /** Whether a connection itself notices that the other side does not answer. */
  readonly noticesSilence: boolean;
  /** Connects to a gateway at a URL, lazily. */
  connect(url: string): GatewayConnection;
}

/** What a client and those made from it share. */
export interface Shared {
  readonly calls: Calls;
  readonly connections: readonly GatewayConnection[];
  readonly platform: Platform;
}

/**
 * The calls of one user to one cell. It connects at the first call, and needs no closing: idle connections do not keep
 * a program alive. {@link close} ends them at once.
 */
export class BoroughClient {
  /** Jobs: submit, plan, scale, roll out, stop, list, wait. */
  readonly jobs: Jobs;
  /** Tasks: list, explain, logs, exec, signal, restart, stop. */
  readonly tasks: Tasks;
  /** Names: the endpoints of jobs. */
  readonly names: Names;
  /** Nodes: list, and operate them. */
  readonly nodes: Nodes;
  /** Cells: list, and change settings. */
  readonly cells: Cells;
  /** Quotas. */
  readonly quotas: Quotas;
  /** Join tokens, and identities of nodes. */
  readonly joins: Joins;
  /** Grants of rights. */
  readonly access: Access;
  /** The audit: who has changed what, and who was refused. */
  readonly audit: Audit;
  /** Federated jobs: run, plan, list, scale, stop, and order their releases. The cell of the client is the home. */
  readonly federated: FederatedJobs;
  /** The member cells of the federation whose home is the cell of the client. */
  readonly members: Members;

  readonly #context: CellContext;

  /** @internal */
  protected constructor(
    private readonly shared: Shared,
    /** The cell of the calls. */
    readonly cell: string,
    /** The user of the calls. */
    readonly user: string,
  ) {
    this.#context = new CellContext(shared.calls, named("cell", cell), named("user", user));
    this.jobs = new Jobs(this.#context);
    this.tasks = new Tasks(this.#context, shared.platform.canExec);
    this.names = new Names(this.#context);
    this.nodes = new Nodes(this.#context);
    this.cells = new Cells(this.#context);
    this.quotas = new Quotas(this.#context);
    this.joins = new Joins(this.#context);
    this.access = new Access(this.#context);
    this.audit = new Audit(this.#context);
    this.federated = new FederatedJobs(this.#context);
    this.members = new Members(this.#context);
  }

  /** The addresses of the gateways. */
  get gateways(): readonly string[] {
    return this.shared.calls.config.pool.addresses;
  }

  /** The same client for another cell or user. Both share their connections. */
  with({ cell = this.cell, user = this.user }: { readonly cell?: string; readonly user?: string }): BoroughClient {
    return new BoroughClient(this.shared, cell, user);
  }

  /**
   * The same client, which changes nothing. Each call that would change something rejects with a {@link DryRunError},
   * which says what would happen, or with the refusal of the change. No command is run. Other calls are as before. Both
   * share their connections.
   */
  withDryRun(): BoroughClient {
    return new BoroughClient({ ...this.shared, calls: this.shared.calls.dryRun() }, this.cell, this.user);
  }

  /**
   * Follows all changes of the cell that a filter chooses, from `resume` or from now: in order, without gaps or
   * repetition over broken connections. A refusal throws. The iterator ends without an error when the caller leaves its
   * loop or aborts, and after a `resync`.
   */
  watch(filter: CellFilter = {}, { signal, resume }: WatchOptions = {}): AsyncIterableIterator<CellItem> {
    const context = this.#context;
    const scope = { context: context.read(), cell: this.cell };
    const { cells } = this;
    return cancellable(async function* (end) {
      // A watch without a cursor would lose changes if its connection broke before its first message.
      const from = resume ?? present("GetCell", "cursor", (await cells.get({ signal: end })).cursor);
      yield* cellItems(context.calls, scope, filter, from, end);
    }, signal);
  }

  /**
   * The newest events, newest last, as far back as the cell keeps them.
   *
   * @param options - `limit`: at most so many, up to 10,000. Default: 100.
   */
  async events(filter: CellFilter = {}, options: CallOptions & { readonly limit?: number } = {}): Promise<EventList> {
    const message = { context: this.#context.read(), cell: this.cell, filter, limit: options.limit ?? 0 };
    const answer = await this.shared.calls.unary(WatchService.method.listEvents, message, options);
    return { events: answer.events, trimmed: answer.trimmed, cursor: answer.cursor };
  }

  /** Asks every gateway how it is. Each has `deadlineMs` for its answer; default: 2,000. */
  async health({ deadlineMs = 2_000 }: { readonly deadlineMs?: number } = {}): Promise<GatewayHealth[]> {
    const { calls } = this.shared;
    const header = await calls.header();
    return Promise.all(calls.config.pool.gateways.map((gateway) => healthOf(gateway, header, deadlineMs)));
  }

  /** Ends all connections. Calls and iterators that go on, and later ones, fail with a {@link ClosedError}. */
  close(): void {
    this.shared.calls.close();
    for (const connection of this.shared.connections) connection.close();
  }

  /** {@link close}, for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Checks the options, and makes what the calls share. Does not connect. */
export function sharedOf(options: CommonOptions, token: TokenSource | undefined, platform: Platform): Shared {
  const { gateways, deadlineMs = DEADLINE_MS, watchPatienceMs = Number.POSITIVE_INFINITY } = options;
  const addresses = typeof gateways === "string" ? gateways.split(",").map((address) => address.trim()) : gateways;
  const isList =
    Array.isArray(addresses) && addresses.length > 0 && addresses.every((each) => typeof each === "string");
  if (!isList) throw invalid("gateways", gateways, "at least one address, HOST:PORT");
  const retry = { ...RETRY_DEFAULT, ...options.retry };
  positive("deadlineMs", deadlineMs);
  positive("watchPatienceMs", watchPatienceMs);
  positive("retry.attemptsMax", retry.attemptsMax);
  const urls = addresses.map((address) => gatewayUrl(address, platform.isEncrypted));
  const connections = urls.map((url) => platform.connect(url));
  const pooled = connections.map(({ transport }, at): { address: string; transport: Transport } => ({
    address: addresses[at] ?? "",
    transport,
  }));
  const pool = new GatewayPool(pooled);
  // A call has time for each gateway.
  const tryMs = platform.noticesSilence || urls.length === 1 ? Number.POSITIVE_INFINITY : deadlineMs / urls.length;
  const config = { pool, token, deadlineMs, retry, tryMs, patienceMs: watchPatienceMs, random: Math.random };
  return { calls: new Calls(config), connections, platform };
}

function positive(field: string, value: number): void {
  if (!(typeof value === "number" && value > 0)) throw invalid(field, value, "a number above 0");
}

async function healthOf(gateway: PooledGateway, header: Headers, deadlineMs: number): Promise<GatewayHealth> {
  const { address, transport, restUntil } = gateway;
  const resting = restUntil > performance.now();
  try {
    const end = AbortSignal.timeout(deadlineMs);
    const { message } = await transport.unary(Health.method.check, end, undefined, header, {});
    const isServing = message.status === HealthCheckResponse_ServingStatus.SERVING;
    return { address, state: isServing ? "serving" : "not_serving", resting };
  } catch (thrown) {
    const answers = failureOf(thrown).from === "gateway";
    return { address, state: answers ? "not_serving" : "unreachable", resting };
  }
}
