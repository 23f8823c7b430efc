/** Labels: how callers change them, and select by them. Pure. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { LabelMatchSchema } from "./gen/borough/v1/common_pb.js";

/** A change of labels. */
export interface LabelChange {
  /** Labels to set: new ones, and other values. */
  readonly set?: Readonly<Record<string, string>>;
  /** Keys of labels to remove. A missing one is no error. */
  readonly remove?: readonly string[];
}

/** A condition on a label: its value, or `{ not: value }` for another value or none. */
export type LabelCondition = string | { readonly not: string };

/** Conditions by the key of the label; all must be met. */
export type LabelSelector = Readonly<Record<string, LabelCondition>>;

/** The conditions as they are sent. */
export function conditionsOf(selector: LabelSelector = {}): MessageInitShape<typeof LabelMatchSchema>[] {
  return Object.entries(selector).map(([key, condition]) =>
    typeof condition === "string" ? { key, value: condition } : { key, value: condition.not, not: true },
  );
}

/** The change as it is sent. */
export function labelsOf({ set = {}, remove = [] }: LabelChange) {
  return { labels: { ...set }, remove: [...remove] };
}
