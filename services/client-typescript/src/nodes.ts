/** Nodes: list, describe and operate them. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "./calls.js";
import { type CellContext, type ChangeOptions, type ListOptions, pageOf, present } from "./context.js";
import {
  type Node,
  type NodeCondition,
  NodeService,
  type NodeState,
  type TaintMatchSchema,
  type TaintSchema,
} from "./gen/borough/v1/node_pb.js";
import { rowsOf } from "./iterate.js";
import { conditionsOf, type LabelChange, type LabelSelector, labelsOf } from "./labels.js";

/** The gateway watches the silence of the recorded agent before it answers, in milliseconds. */
const SILENCE_DEADLINE_MS = 60_000;

/** Which nodes are listed. */
export interface NodeFilter {
  /** Only those in one of these states. */
  readonly states?: readonly NodeState[];
  /** Only those in one of these conditions. */
  readonly conditions?: readonly NodeCondition[];
  /** Only those with labels and attributes that meet all of these conditions. */
  readonly labels?: LabelSelector;
}

/** A taint: its key, its effect, and perhaps a value. */
export type NodeTaint = MessageInitShape<typeof TaintSchema>;
/** The taints to remove: those with this key and, if given, this value and effect. */
export type NodeTaintMatch = MessageInitShape<typeof TaintMatchSchema>;

/** The nodes of a cell. Changes are for operators. */
export class Nodes {
  /** @internal */
  constructor(private readonly context: CellContext) {}

  /** The nodes that a filter chooses, by name, over all pages. */
  list(filter: NodeFilter = {}, options: ListOptions = {}): AsyncIterableIterator<Node> {
    const read = async (page: string, signal: AbortSignal) => {
      const answer = await this.context.calls.unary(
        NodeService.method.listNodes,
        {
          context: this.context.read(),
          cell: this.context.cell,
          states: [...(filter.states ?? [])],
          conditions: [...(filter.conditions ?? [])],
          selector: conditionsOf(filter.labels),
          page: pageOf(page, options),
        },
        { ...options, signal },
      );
      return { rows: answer.nodes, nextPage: answer.nextPage };
    };
    return rowsOf(read, options.signal);
  }

  /** One node. */
  async get(name: string, options: CallOptions = {}): Promise<Node> {
    const message = { context: this.context.read(), cell: this.context.cell, name };
    return nodeOf("GetNode", await this.context.calls.unary(NodeService.method.getNode, message, options));
  }

  /** Takes the node out of service for new tasks: the scheduler places nothing there after the answer. */
  async cordon(name: string, options: ChangeOptions = {}): Promise<Node> {
    const message = this.#change(name, options);
    return nodeOf("CordonNode", await this.context.calls.unary(NodeService.method.cordonNode, message, options));
  }

  /** Lets the node take new tasks again; ends a drain. */
  async uncordon(name: string, options: ChangeOptions = {}): Promise<Node> {
    const message = this.#change(name, options);
    return nodeOf("UncordonNode", await this.context.calls.unary(NodeService.method.uncordonNode, message, options));
  }

  /**
   * Cordons the node, and moves its tasks to other nodes. Returns when that is committed, before they have moved.
   *
   * @param options - `force`: stops every task now, also those that fit on no other node.
   */
  async drain(name: string, options: ChangeOptions & { readonly force?: boolean } = {}): Promise<Node> {
    const message = { ...this.#change(name, options), force: options.force ?? false };
    return nodeOf("DrainNode", await this.context.calls.unary(NodeService.method.drainNode, message, options));
  }

  /** Sets taints. One of the same key and effect gets the new value. */
  async taint(name: string, taints: readonly NodeTaint[], options: ChangeOptions = {}): Promise<Node> {
    const message = { ...this.#change(name, options), taints: [...taints] };
    return nodeOf("TaintNode", await this.context.calls.unary(NodeService.method.taintNode, message, options));
  }

  /** Removes taints. A missing one is no error. */
  async untaint(name: string, taints: readonly NodeTaintMatch[], options: ChangeOptions = {}): Promise<Node> {
    const message = { ...this.#change(name, options), taints: [...taints] };
    return nodeOf("UntaintNode", await this.context.calls.unary(NodeService.method.untaintNode, message, options));
  }

  /** Sets and removes labels. */
  async label(name: string, change: LabelChange, options: ChangeOptions = {}): Promise<Node> {
    const message = { ...this.#change(name, options), ...labelsOf(change) };
    return nodeOf("LabelNode", await this.context.calls.unary(NodeService.method.labelNode, message, options));
  }

  /**
   * Gives the node to another agent, `DURABLE@MACHINE`, because the machine of the recorded one is gone for good. The
   * gateway first watches the silence of the recorded agent.
   */
  async admit(name: string, identity: string, options: ChangeOptions = {}): Promise<Node> {
    const slow = { deadlineMs: SILENCE_DEADLINE_MS, ...options };
    const message = { ...this.#change(name, options), identity };
    return nodeOf("AdmitNode", await this.context.calls.unary(NodeService.method.admitNode, message, slow));
  }

  /** Forgets a node that is gone. The gateway first watches the silence of its agent. */
  async remove(name: string, options: ChangeOptions = {}): Promise<void> {
    const slow = { deadlineMs: SILENCE_DEADLINE_MS, ...options };
    await this.context.calls.unary(NodeService.method.removeNode, this.#change(name, options), slow);
  }

  #change(name: string, options: ChangeOptions) {
    return { context: this.context.change(options), cell: this.context.cell, name };
  }
}

function nodeOf(method: string, answer: { readonly node?: Node | undefined }): Node {
  return present(method, "node", answer.node);
}
