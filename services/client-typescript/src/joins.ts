/** Join tokens: how nodes join a cell. */

import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf, present } from "./context.js";
import { type NodeJoin, NodeService } from "./gen/borough/v1/node_pb.js";
import { rowsOf } from "./iterate.js";

const HOUR_MS = 3_600_000;

/** How a join token is made. Without any, it counts for an hour. */
export interface JoinTokenOptions {
  /** `borough-join-` with 64 hexadecimal digits behind it. Absent: a new one. */
  readonly token?: string;
  /** For how long it counts, in milliseconds: from a minute to 7 days. */
  readonly lastsMs?: number;
  /** For how long the identity of the node counts after each renewal, in milliseconds. Absent: 7 days. */
  readonly identityLastsMs?: number;
}

/** A new join token. */
export interface IssuedJoinToken {
  /** What the agent reads from the file of `--join-token-file`. The cell has its digest only. */
  readonly token: string;
  /** What the node name has now. */
  readonly join: NodeJoin;
}

/** The join tokens of a cell, and the identities that nodes have got for them. Changes are for administrators. */
export class Joins {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** Makes the join token of a node instead of the one that it had. The agent of that node joins by it, once. */
  async issue(node: string, options: ChangeOptions & JoinTokenOptions = {}): Promise<IssuedJoinToken> {
    const token = options.token ?? newJoinToken();
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
    const message = {
      context: this.context.change(options),
      cell: this.context.cell,
      name: node,
      tokenDigest: new Uint8Array(digest),
      lastsMs: BigInt(options.lastsMs ?? HOUR_MS),
      identityLastsMs: BigInt(options.identityLastsMs ?? 0),
    };
    const { join } = await this.context.calls.unary(NodeService.method.createJoinToken, message, options);
    return { token, join: present("CreateJoinToken", "join", join) };
  }

  /** The tokens and identities by the name of the node, over all pages and without secrets. */
  list(options: ListOptions = {}): AsyncIterableIterator<NodeJoin> {
    const read = async (page: string, signal: AbortSignal) => {
      const message = { context: this.context.read(), cell: this.context.cell, page: pageOf(page, options) };
      const listed: CallOptions = { ...options, signal };
      const answer = await this.context.calls.unary(NodeService.method.listJoinTokens, message, listed);
      return { rows: answer.joins, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /**
   * Takes back a token that no agent has used. Returns what the node name had.
   *
   * @param options - `identity`: also ends the identity of the node with its sessions.
   */
  async revoke(node: string, options: ChangeOptions & { readonly identity?: boolean } = {}): Promise<NodeJoin> {
    const message = {
      context: this.context.change(options),
      cell: this.context.cell,
      name: node,
      identity: options.identity ?? false,
    };
    const { join } = await this.context.calls.unary(NodeService.method.revokeJoinToken, message, options);
    return present("RevokeJoinToken", "join", join);
  }
}

function newJoinToken(): string {
  const bits = crypto.getRandomValues(new Uint8Array(32));
  const digits = Array.from(bits, (byte) => byte.toString(16).padStart(2, "0"));
  return `borough-join-${digits.join("")}`;
}
