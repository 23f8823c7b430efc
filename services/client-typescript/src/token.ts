/** The secret that proves who the caller is, as it is sent with every call. */

import type { TokenSource } from "./calls.js";
import { invalid } from "./errors.js";

/** The most characters of a token: it is sent with every call. */
const TOKEN_MAX = 8_192;
const ACCEPTED = "one line of at most 8,192 visible ASCII characters";

/** A token: its text, or a function that returns the text for each call, such as one that renews it. */
export type Token = string | (() => string | Promise<string>);

/** A checked token. `named` is where it is from, as errors say it. Errors never show the token itself. */
export function tokenText(text: string, named: string): string {
  const token = text.trim();
  const refuse = (problem: string) => invalid("token", `the token of ${named} ${problem}`, ACCEPTED);
  if (token === "") throw refuse("is empty");
  if (token.length > TOKEN_MAX) throw refuse("is too long");
  if (!/^[\x21-\x7e]+$/.test(token)) throw refuse("has other characters");
  return token;
}

/** The source of a token that the caller gives. */
export function tokenSource(token: Token): TokenSource {
  const named = "the caller";
  if (typeof token === "string") {
    const text = tokenText(token, named);
    return { named, text: () => text };
  }
  return { named, text: async () => tokenText(await token(), named) };
}
