/** Who may do what in a cell: grants of rights to users and groups. */

import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf, present } from "./context.js";
import {
  AccessService,
  type CheckAccessResponse,
  type Grant,
  type GrantChange,
  type IdentityKey,
  type ListHoldersResponse,
} from "./gen/borough/v1/access_pb.js";
import { rowsOf } from "./iterate.js";

/** What a subject is given and denied. */
export interface Rights {
  /** Names of roles: `viewer`, `runner`, `maintainer` or `admin`. */
  readonly roles?: readonly string[];
  /** Names of rights beside those of the roles. */
  readonly allow?: readonly string[];
  /** Rights that the subject never has, whatever other grants say. */
  readonly deny?: readonly string[];
}

/** Something that a caller may want to do. */
export interface AccessQuestion {
  /** The name of a right, such as `read`, or of a method of the API, such as `StopJob`. */
  readonly action: string;
  /** The user whose jobs it concerns. Absent: of everybody. */
  readonly owner?: string;
  /** `user/NAME` or `group/NAME`. Absent: the caller. */
  readonly subject?: string;
  /** Groups of that user, which only its credentials say. */
  readonly groups?: readonly string[];
}

/** A grant with its last changes. */
export interface GrantDetail {
  /** The grant. */
  readonly grant: Grant;
  /** The last changes, oldest first. */
  readonly changes: readonly GrantChange[];
}

/** The grants of a cell, and the keys that sign the identities of its tasks. */
export class Access {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** The grants of the cell, by subject, over all pages. */
  list(options: ListOptions = {}): AsyncIterableIterator<Grant> {
    const read = async (page: string, signal: AbortSignal) => {
      const message = { context: this.context.read(), cell: this.context.cell, page: pageOf(page, options) };
      const listed = { ...options, signal };
      const answer = await this.context.calls.unary(AccessService.method.listGrants, message, listed);
      return { rows: answer.grants, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /** The grant of `user/NAME` or `group/NAME`. One that was never set gives nothing. */
  async get(subject: string, options: CallOptions = {}): Promise<GrantDetail> {
    const message = { context: this.context.read(), cell: this.context.cell, subject };
    const { grant, changes } = await this.context.calls.unary(AccessService.method.getGrant, message, options);
    return { grant: present("GetGrant", "grant", grant), changes };
  }

  /**
   * Replaces the whole grant of a subject; without roles and rights it is removed. It holds at every gateway within
   * seconds.
   *
   * @param options - `expectedRevision`: another revision of the grant is then refused.
   */
  async set(
    subject: string,
    { roles = [], allow = [], deny = [] }: Rights,
    options: ChangeOptions & { readonly expectedRevision?: bigint } = {},
  ): Promise<Grant> {
    const message = {
      context: this.context.change(options),
      cell: this.context.cell,
      grant: { subject, roles: [...roles], allow: [...allow], deny: [...deny] },
      expectedRevision: options.expectedRevision ?? 0n,
    };
    const { grant } = await this.context.calls.unary(AccessService.method.setGrant, message, options);
    return present("SetGrant", "grant", grant);
  }

  /** Whether a caller may do something, and why. */
  async check(question: AccessQuestion, options: CallOptions = {}): Promise<CheckAccessResponse> {
    const { action, owner = "", subject = "", groups = [] } = question;
    const context = this.context.read();
    const message = { context, cell: this.context.cell, action, owner, subject, groups: [...groups] };
    return this.context.calls.unary(AccessService.method.checkAccess, message, options);
  }

  /** The users and groups that may do something. */
  async holders(
    question: Pick<AccessQuestion, "action" | "owner">,
    options: CallOptions = {},
  ): Promise<ListHoldersResponse> {
    const { action, owner = "" } = question;
    const message = { context: this.context.read(), cell: this.context.cell, action, owner };
    return this.context.calls.unary(AccessService.method.listHolders, message, options);
  }

  /** The keys that sign the identities of tasks: their public halves, by number. */
  async identityKeys(options: CallOptions = {}): Promise<readonly IdentityKey[]> {
    const message = { context: this.context.read(), cell: this.context.cell };
    return (await this.context.calls.unary(AccessService.method.listIdentityKeys, message, options)).keys;
  }

  /**
   * Makes another key before it is due. It is published at once. Returns the keys after it.
   *
   * @param options - `aheadMs`: after which time it signs, up to 7 days; those who check identities learn of it before.
   */
  async rotateIdentityKeys(
    options: ChangeOptions & { readonly aheadMs?: number } = {},
  ): Promise<readonly IdentityKey[]> {
    return this.#rotate({ aheadMs: BigInt(options.aheadMs ?? 0), withdraw: false }, options);
  }

  /**
   * Makes another key that signs at once, and withdraws all keys before it: no token of them counts any more. Returns
   * the keys after it.
   */
  async withdrawIdentityKeys(options: ChangeOptions = {}): Promise<readonly IdentityKey[]> {
    return this.#rotate({ aheadMs: 0n, withdraw: true }, options);
  }

  async #rotate(
    rotation: { readonly aheadMs: bigint; readonly withdraw: boolean },
    options: ChangeOptions,
  ): Promise<readonly IdentityKey[]> {
    const message = { context: this.context.change(options), cell: this.context.cell, ...rotation };
    return (await this.context.calls.unary(AccessService.method.rotateIdentityKeys, message, options)).keys;
  }
}
