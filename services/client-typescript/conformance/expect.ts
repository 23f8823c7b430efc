/** What a step expects of its error. */

import { BoroughError } from "../src/node.js";
import type { Json } from "./world.js";

/** Throws unless a step came to what it expects. `thrown`: absent if it succeeded. */
export function check(step: Json, thrown: unknown): void {
  const expected = step.error as Json | undefined;
  if (expected === undefined) {
    if (thrown !== undefined) throw thrown;
    return;
  }
  if (thrown === undefined) throw new Error(`it succeeded, and ${JSON.stringify(expected)} was expected`);
  if (!(thrown instanceof BoroughError)) throw thrown;
  const found = thrown as unknown as Json;
  const fields = (found.fields as readonly { field: string }[] | undefined) ?? [];
  const effects = (found.effects as readonly { subject: string; text: string }[] | undefined) ?? [];
  const asSaid: Record<string, (value: unknown) => boolean> = {
    field: (value) => fields.some(({ field }) => field.includes(String(value))),
    effect: (value) => effects.some(({ subject, text }) => `${subject}: ${text}`.startsWith(String(value))),
    says: (value) => thrown.message.includes(String(value)),
  };
  for (const [key, value] of Object.entries(expected)) {
    if (asSaid[key]?.(value) ?? found[key] === value) continue;
    const said = { kind: thrown.kind, code: found.code, reason: found.reason, changes: found.changes, fields, effects };
    throw new Error(`${key} is not ${JSON.stringify(value)}: ${JSON.stringify(said)}: ${thrown.message}`);
  }
}
