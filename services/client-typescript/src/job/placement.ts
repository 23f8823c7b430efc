/** The parts of a spec that say where tasks run. Pure. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { TaintEffect } from "../gen/borough/v1/common_pb.js";
import {
  Affinity_Kind,
  type AffinitySchema,
  Constraint_Operator,
  type ConstraintSchema,
  type SpreadSchema,
  Toleration_Operator,
  type TolerationSchema,
} from "../gen/borough/v1/job_pb.js";
import { type Bounds, Fields, optional, type Problems } from "./fields.js";

const WEIGHT: Bounds = { least: 1, most: 100 };
const SOME: Bounds = { least: 1, most: 0xffffffff };
/** The weights of the entries of a list of attributes. */
const SPREAD_WEIGHTS = [100, 50, 25, 12, 6, 3];
const SPREADS_MAX = 8;
const WEEK_MS = 604_800_000;
const ATTRIBUTE_ACCEPTED = "the name of an attribute or label";
const OPERATORS = {
  in: Constraint_Operator.IN,
  not_in: Constraint_Operator.NOT_IN,
  exists: Constraint_Operator.EXISTS,
  absent: Constraint_Operator.ABSENT,
  greater_than: Constraint_Operator.GREATER_THAN,
  less_than: Constraint_Operator.LESS_THAN,
};
const EFFECTS = {
  no_schedule: TaintEffect.NO_SCHEDULE,
  prefer_no_schedule: TaintEffect.PREFER_NO_SCHEDULE,
  no_execute: TaintEffect.NO_EXECUTE,
};

/** Returns true for a key of a label or an attribute. */
export function isKey(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$/.test(text);
}

const CONSTRAINT_ACCEPTED =
  "a text such as rack in [r1, r2], arch == x86_64, cpu.count > 8 or ssd exists; or an object";
const WORDS: Record<string, keyof typeof OPERATORS> = {
  in: "in",
  "not in": "not_in",
  "==": "in",
  "!=": "not_in",
  ">": "greater_than",
  "<": "less_than",
  exists: "exists",
  absent: "absent",
};
const TEXTS = [
  /^(\S+)\s+(in|not in)\s+\[([^\]]*)\](?:\s+prefer\s+(\d+))?$/,
  /^(\S+)\s+(exists|absent)()(?:\s+prefer\s+(\d+))?$/,
  /^(\S+?)\s*(==|!=|>|<)\s*("[^"]*"|[^\s"[\],]+)(?:\s+prefer\s+(\d+))?$/,
];

/** The object that the text of a condition stands for; undefined if it is no condition. */
function conditionOf(text: string): object | undefined {
  for (const pattern of TEXTS) {
    const [, attribute, word = "", listed = "", prefer] = pattern.exec(text.trim()) ?? [];
    if (attribute === undefined) continue;
    const parts = /in$/.test(word) ? listed.split(",").map((value) => value.trim()) : [listed];
    const values = parts.filter((value) => value !== "").map((value) => value.replace(/^"(.*)"$/, "$1"));
    return { attribute, operator: WORDS[word], values, ...(prefer !== undefined && { prefer: Number(prefer) }) };
  }
  return undefined;
}

/** A condition on nodes or on jobs: the text of a job file, or an object. */
export function constraintOf(
  problems: Problems,
  path: string,
  item: unknown,
): MessageInitShape<typeof ConstraintSchema> {
  const given = typeof item === "string" ? conditionOf(item) : item;
  if (given === undefined) {
    problems.refuse(path, item, CONSTRAINT_ACCEPTED);
    return {};
  }
  return conditionFields(new Fields(problems, path, given));
}

function conditionFields(fields: Fields): MessageInitShape<typeof ConstraintSchema> {
  const attribute = attributeOf(fields, "attribute");
  const operator = fields.word("operator", OPERATORS);
  if (fields.raw("operator") === undefined) fields.refuse("operator", Object.keys(OPERATORS).join(", "));
  const values = fields.value("values", "a list of texts or numbers", textsOf) ?? [];
  const accepted = valuesAccepted(operator, values);
  if (accepted !== undefined) fields.refuse("values", accepted);
  const constraint = {
    attribute,
    operator: operator ?? Constraint_Operator.OPERATOR_UNSPECIFIED,
    values,
    ...optional("preference", fields.whole("prefer", WEIGHT)),
  };
  fields.done();
  return constraint;
}

/** The entries of a spread: a list, or a map of attributes and weights. */
export function spreadsOf(job: Fields): MessageInitShape<typeof SpreadSchema>[] {
  const given = job.raw("spread");
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    return job.list("spread", SPREADS_MAX, (item, path) => spreadOf(job.problems, path, item));
  }
  const entries = Object.entries(given);
  if (entries.length > SPREADS_MAX) job.refuse("spread", `at most ${SPREADS_MAX} attributes`);
  return entries.map(([attribute, weight]) => {
    const fields = new Fields(job.problems, `spread.${attribute}`, { attribute, weight });
    return { attribute: attributeOf(fields, "attribute"), weight: fields.whole("weight", WEIGHT) ?? 1 };
  });
}

/** Over which domains tasks spread. The place in the list decides the weight unless one is given. */
function spreadOf(problems: Problems, path: string, item: unknown): MessageInitShape<typeof SpreadSchema> {
  const fields = new Fields(problems, path, typeof item === "string" ? { attribute: item } : item);
  const place = Number(/\[(\d+)\]$/.exec(path)?.[1]);
  const spread = {
    attribute: attributeOf(fields, "attribute"),
    weight: fields.whole("weight", WEIGHT) ?? SPREAD_WEIGHTS[place] ?? 1,
    ...optional("maxSkew", fields.whole("maxSkew", SOME)),
    ...optional("tasksMax", fields.whole("tasksMax", SOME)),
    ...optional("percentMax", fields.whole("percentMax", WEIGHT)),
  };
  fields.done();
  return spread;
}

/** Near which tasks, or apart from which. */
export function affinityOf(fields: Fields): MessageInitShape<typeof AffinitySchema> {
  const isNear = fields.raw("near") !== undefined;
  if (isNear === (fields.raw("apart") !== undefined)) {
    fields.problems.refuse(fields.path, isNear ? "near and apart" : "neither near nor apart", "one of near and apart");
  }
  const jobs = fields.list("jobs", 16, (item, path) => constraintOf(fields.problems, path, item));
  if (jobs.length === 0) fields.refuse("jobs", "1 to 16 conditions on labels, job.name or job.user");
  const affinity = {
    kind: isNear ? Affinity_Kind.NEAR : Affinity_Kind.APART,
    attribute: attributeOf(fields, isNear ? "near" : "apart"),
    jobs,
    ...optional("preference", fields.whole("prefer", WEIGHT)),
  };
  fields.done();
  return affinity;
}

/** Which taints do not keep tasks away. */
export function tolerationOf(
  problems: Problems,
  path: string,
  item: unknown,
): MessageInitShape<typeof TolerationSchema> {
  const fields = new Fields(problems, path, typeof item === "string" ? { taint: item } : item);
  const value = fields.text("value");
  const effect = fields.word("effect", EFFECTS);
  const evictAfterMs = fields.duration("evictAfter", { least: 0, most: WEEK_MS });
  if (evictAfterMs !== undefined && effect !== TaintEffect.NO_EXECUTE) {
    fields.refuse("evictAfter", "none, or the effect no_execute: only such taints drive tasks away");
  }
  const toleration = {
    key: fields.text("taint", "the key of a taint", isKey) ?? "",
    operator: value === undefined ? Toleration_Operator.EXISTS : Toleration_Operator.EQUAL,
    value: value ?? "",
    effect: effect ?? TaintEffect.UNSPECIFIED,
    ...optional("evictAfterMs", evictAfterMs),
  };
  fields.done();
  return toleration;
}

function attributeOf(fields: Fields, key: string): string {
  const attribute = fields.text(key, ATTRIBUTE_ACCEPTED, isKey);
  if (fields.raw(key) === undefined) fields.refuse(key, ATTRIBUTE_ACCEPTED);
  return attribute ?? "";
}

function textsOf(value: unknown): string[] | undefined {
  const isFine = (item: unknown) => typeof item === "string" || (typeof item === "number" && Number.isFinite(item));
  return Array.isArray(value) && value.every(isFine) ? value.map(String) : undefined;
}

/** What is accepted instead of these values; undefined: they fit. */
function valuesAccepted(operator: Constraint_Operator | undefined, values: readonly string[]): string | undefined {
  switch (operator) {
    case Constraint_Operator.IN:
    case Constraint_Operator.NOT_IN:
      return values.length >= 1 && values.length <= 64 ? undefined : "1 to 64 values";
    case Constraint_Operator.EXISTS:
    case Constraint_Operator.ABSENT:
      return values.length === 0 ? undefined : "no values with exists and absent";
    case Constraint_Operator.GREATER_THAN:
    case Constraint_Operator.LESS_THAN:
      return values.length === 1 && Number.isFinite(Number(values[0])) ? undefined : "one finite number";
    default:
      return undefined;
  }
}
