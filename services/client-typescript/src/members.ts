/** Member cells: the cells of a federation. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, present } from "./context.js";
import { invalid } from "./errors.js";
import { type ChangeMemberRequestSchema, type Member, MemberService } from "./gen/borough/v1/member_pb.js";
import { conditionsOf, type LabelChange, type LabelSelector } from "./labels.js";

/** What a change of a member cell may set for itself. */
export interface MemberChangeOptions extends ChangeOptions {
  /** The revision of the cell that the change was made for; another one is then refused. */
  readonly expectedRevision?: bigint;
}

type Changed = Omit<MessageInitShape<typeof ChangeMemberRequestSchema>, "$typeName">;

/** The member cells of a federation. The cell of the client is its home. Changes are for operators. */
export class Members {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** The member cells with labels that meet all of the conditions, by name, each with what was last seen of it. */
  async list(labels: LabelSelector = {}, options: CallOptions = {}): Promise<Member[]> {
    const message = { context: this.context.read(), cell: this.context.cell, selector: conditionsOf(labels) };
    return (await this.context.calls.unary(MemberService.method.listMembers, message, options)).members;
  }

  /** One member cell. */
  async get(member: string, options: CallOptions = {}): Promise<Member> {
    const message = { context: this.context.read(), cell: this.context.cell, member };
    return memberIn("GetMember", await this.context.calls.unary(MemberService.method.getMember, message, options));
  }

  /**
   * Adds a cell to the federation.
   *
   * @param member - The name by which its gateways know it.
   * @param gateways - Their addresses, `HOST:PORT`: 1 to 8.
   * @param options - `labels`: where the cell is, and what it is.
   */
  async join(
    member: string,
    gateways: readonly string[],
    options: ChangeOptions & { readonly labels?: Readonly<Record<string, string>> } = {},
  ): Promise<Member> {
    const message = { ...this.#named(member, options), gateways: [...gateways], labels: { ...options.labels } };
    return memberIn("JoinMember", await this.context.calls.unary(MemberService.method.joinMember, message, options));
  }

  /** Takes a cell out of the federation, and returns it as it was. Its jobs go on. */
  async leave(member: string, options: ChangeOptions = {}): Promise<Member> {
    const message = this.#named(member, options);
    return memberIn(
      "RemoveMember",
      await this.context.calls.unary(MemberService.method.removeMember, message, options),
    );
  }

  /** Gives the cell no new work. What it has goes on. */
  async cordon(member: string, options: MemberChangeOptions = {}): Promise<Member> {
    return this.#change(member, { cordoned: true }, options);
  }

  /** Gives the cell new work again, and ends a drain. */
  async uncordon(member: string, options: MemberChangeOptions = {}): Promise<Member> {
    return this.#change(member, { cordoned: false, draining: false }, options);
  }

  /**
   * Lets the federated tasks of the cell go to other cells, as far as those have room. It gets no new ones. Returns when
   * that is committed. `client.federated.list` with `member` shows the jobs that still have tasks there.
   */
  async drain(member: string, options: MemberChangeOptions = {}): Promise<Member> {
    return this.#change(member, { draining: true }, options);
  }

  /** Sets and removes labels of the cell. */
  async label(member: string, change: LabelChange, options: MemberChangeOptions = {}): Promise<Member> {
    const { set = {}, remove = [] } = change;
    return this.#change(member, { labels: { ...set }, labelsRemoved: [...remove] }, options);
  }

  /** Replaces the addresses at which the cell is reached: 1 to 8 of `HOST:PORT`. */
  async setGateways(member: string, gateways: readonly string[], options: MemberChangeOptions = {}): Promise<Member> {
    // The gateway would change nothing.
    if (gateways.length === 0) throw invalid("gateways", gateways, "1 to 8 addresses HOST:PORT");
    return this.#change(member, { gateways: [...gateways] }, options);
  }

  async #change(member: string, changed: Changed, options: MemberChangeOptions): Promise<Member> {
    const message = {
      ...this.#named(member, options),
      ...changed,
      expectedRevision: options.expectedRevision ?? 0n,
    };
    return memberIn(
      "ChangeMember",
      await this.context.calls.unary(MemberService.method.changeMember, message, options),
    );
  }

  #named(member: string, options: ChangeOptions) {
    return { context: this.context.change(options), cell: this.context.cell, member };
  }
}

function memberIn(method: string, answer: { readonly member?: Member | undefined }): Member {
  return present(method, "member", answer.member);
}
