/** The gateways of a client, and which of them the next call uses. */

import type { Transport } from "@connectrpc/connect";

/** The time for which a gateway that failed is left, in milliseconds. Each failure in a row doubles it. */
const REST_INITIAL_MS = 1_000;
/** The longest such time. */
const REST_MAX_MS = 30_000;

/** One gateway. */
export interface PooledGateway {
  /** Its address as it was given. */
  readonly address: string;
  readonly transport: Transport;
  /** Failures in a row. */
  failures: number;
  /** Until when it is left, by the clock of the pool. */
  restUntil: number;
}

/** A connection to one gateway, and how to end it. */
export interface GatewayConnection {
  readonly transport: Transport;
  close(): void;
}

/**
 * Calls stay with one gateway until it fails. Then the next one that does not rest is used. If all rest, it is the one
 * whose rest ends first: a caller is better served by a doubtful gateway than by none.
 */
export class GatewayPool {
  readonly #gateways: PooledGateway[];
  #current = 0;

  constructor(
    gateways: readonly { address: string; transport: Transport }[],
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#gateways = gateways.map((gateway) => ({ ...gateway, failures: 0, restUntil: 0 }));
  }

  /** The addresses as they were given. */
  get addresses(): string[] {
    return this.#gateways.map(({ address }) => address);
  }

  /** All gateways, in the order of their addresses. */
  get gateways(): readonly PooledGateway[] {
    return this.#gateways;
  }

  /** The gateway for the next try. */
  pick(): PooledGateway {
    const now = this.now();
    const order = this.#gateways.map((_, step) => (this.#current + step) % this.#gateways.length);
    const ready = order.find((number) => this.#at(number).restUntil <= now);
    const first = (one: number, other: number) => (this.#at(other).restUntil < this.#at(one).restUntil ? other : one);
    this.#current = ready ?? order.reduce(first);
    return this.#at(this.#current);
  }

  /** Leaves a gateway for a while. Calls that failed together count once. */
  failed(gateway: PooledGateway): void {
    const now = this.now();
    if (gateway.restUntil > now) {
      // It was tried for want of another. The next try asks another one all the same.
      this.#step(gateway);
      return;
    }
    gateway.failures += 1;
    gateway.restUntil = now + Math.min(REST_INITIAL_MS * 2 ** (gateway.failures - 1), REST_MAX_MS);
    this.#step(gateway);
  }

  /** Uses another gateway for the next try, although this one is well. */
  rotate(gateway: PooledGateway): void {
    this.#step(gateway);
  }

  /** Records that a gateway has answered. */
  answered(gateway: PooledGateway): void {
    gateway.failures = 0;
    gateway.restUntil = 0;
  }

  #step(gateway: PooledGateway): void {
    // If another call was faster, the pool has changed already.
    if (this.#at(this.#current) === gateway) this.#current = (this.#current + 1) % this.#gateways.length;
  }

  #at(number: number): PooledGateway {
    const gateway = this.#gateways[number];
    if (gateway === undefined) throw new RangeError(`no gateway ${number}`);
    return gateway;
  }
}
