/** Reads the fields of an object that a caller gives, and collects everything that is wrong with them. */

import { InvalidError, type InvalidField, shown } from "../errors.js";
import { isName } from "../refs.js";
import { bytesOf, coresMillis, durationMs, durationText } from "./amounts.js";

const NAME_ACCEPTED = "a name of 1 to 63 of a-z, 0-9 and -, beginning with a letter, not ending with -";

/** The fields that are wrong. */
export class Problems {
  readonly #fields: InvalidField[] = [];

  /** Records a field that is refused. */
  refuse(field: string, value: unknown, accepted: string): void {
    this.#fields.push({ field, value: shown(value), accepted });
  }

  /** Throws if anything was refused. */
  done(): void {
    if (this.#fields.length > 0) throw new InvalidError(this.#fields);
  }
}

/** Bounds of a number, both included. */
export interface Bounds {
  readonly least: number;
  readonly most: number;
}

/**
 * One object and its path. Each method reads one field; an absent one is undefined, and so is one that was refused.
 * {@link done} refuses the fields that nobody has read.
 */
export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #read = new Set<string>();

  constructor(
    readonly problems: Problems,
    readonly path: string,
    given: unknown,
  ) {
    const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
    if (!isObject) problems.refuse(path || "job", given, "an object");
    this.#values = isObject ? (given as Record<string, unknown>) : {};
  }

  /** The path of a field. */
  at(key: string): string {
    return this.path === "" ? key : `${this.path}.${key}`;
  }

  /** The value as it was given. */
  raw(key: string): unknown {
    this.#read.add(key);
    return this.#values[key];
  }

  /** Refuses the value of a field. Returns undefined, for the caller to return. */
  refuse(key: string, accepted: string): undefined {
    this.problems.refuse(this.at(key), this.raw(key), accepted);
    return undefined;
  }

  /** A value that `read` understands. */
  value<T>(key: string, accepted: string, read: (value: unknown) => T | undefined): T | undefined {
    const value = this.raw(key);
    if (value === undefined) return undefined;
    return read(value) ?? this.refuse(key, accepted);
  }

  text(key: string, accepted = "a text", isFine: (text: string) => boolean = () => true): string | undefined {
    return this.value(key, accepted, (value) => (typeof value === "string" && isFine(value) ? value : undefined));
  }

  name(key: string): string | undefined {
    return this.text(key, NAME_ACCEPTED, isName);
  }

  flag(key: string): boolean | undefined {
    return this.value(key, "true or false", (value) => (typeof value === "boolean" ? value : undefined));
  }

  whole(key: string, { least, most }: Bounds): number | undefined {
    return this.value(key, `a whole number from ${least} to ${most}`, (value) =>
      typeof value === "number" && Number.isInteger(value) && value >= least && value <= most ? value : undefined,
    );
  }

  /** One of the words of a table, as its value there. */
  word<T>(key: string, words: Readonly<Record<string, T>>): T | undefined {
    const accepted = Object.keys(words).join(", ");
    return this.value(key, accepted, (value) =>
      typeof value === "string" && Object.hasOwn(words, value) ? words[value] : undefined,
    );
  }

  /** Milliseconds. */
  duration(key: string, { least, most }: Bounds): bigint | undefined {
    const range = `${durationText(least)} to ${durationText(most)}`;
    const accepted = `${range}, as milliseconds or as a text such as 250ms, 5s or 1m30s`;
    const ms = this.value(key, accepted, (value) => within(durationMs(value), { least, most }));
    return ms === undefined ? undefined : BigInt(ms);
  }

  cores(key: string): bigint | undefined {
    const accepted = "a number of cores such as 2 or 0.5, or a text such as 500m; at least one thousandth";
    const millis = this.value(key, accepted, (value) => within(coresMillis(value), { least: 1, most: 1e12 }));
    return millis === undefined ? undefined : BigInt(millis);
  }

  bytes(key: string, least: number, most: number = Number.MAX_SAFE_INTEGER): bigint | undefined {
    const accepted = `a number of bytes or a text such as 64MiB; at least ${least} bytes`;
    const bytes = this.value(key, accepted, (value) => within(bytesOf(value), { least, most }));
    return bytes === undefined ? undefined : BigInt(bytes);
  }

  rate(key: string): bigint | undefined {
    const accepted = "bytes per second: a number, or a text such as 10MiB/s";
    const bytes = this.value(key, accepted, (value) => bytesOf(value, true));
    return bytes === undefined ? undefined : BigInt(bytes);
  }

  /** A list of texts without NUL. */
  texts(key: string, accepted = "a list of texts"): string[] | undefined {
    return this.value(key, accepted, (value) =>
      Array.isArray(value) && value.every((text) => typeof text === "string" && !text.includes("\0"))
        ? [...value]
        : undefined,
    );
  }

  /** A program and its arguments. */
  command(key: string): string[] | undefined {
    const accepted = "a list of a program and its arguments";
    const command = this.texts(key, accepted);
    return command && !command[0] ? this.refuse(key, accepted) : command;
  }

  /** A map of texts. `isKey`: which keys are accepted. */
  map(key: string, accepted: string, isKey: (key: string) => boolean = () => true): Record<string, string> | undefined {
    const value = this.raw(key);
    if (value === undefined) return undefined;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return this.refuse(key, accepted);
    for (const [name, text] of Object.entries(value)) {
      const fits = isKey(name) && typeof text === "string" && !text.includes("\0");
      if (!fits) this.problems.refuse(`${this.at(key)}["${name}"]`, text, accepted);
    }
    return { ...value } as Record<string, string>;
  }

  /** The fields of an inner object. */
  object(key: string): Fields | undefined {
    const value = this.raw(key);
    return value === undefined ? undefined : new Fields(this.problems, this.at(key), value);
  }

  /** The items of a list, each read from its own path. */
  list<T>(key: string, most: number, read: (item: unknown, path: string) => T): T[] {
    const value = this.raw(key);
    if (value === undefined) return [];
    if (!Array.isArray(value) || value.length > most) {
      this.refuse(key, `a list of at most ${most}`);
      return [];
    }
    return value.map((item, at) => read(item, `${this.at(key)}[${at}]`));
  }

  /** Refuses fields that nobody has read: they are misspelt, or of a newer version. */
  done(): void {
    for (const [key, value] of Object.entries(this.#values)) {
      if (this.#read.has(key) || value === undefined) continue;
      this.problems.refuse(this.at(key), value, `no such field; known: ${[...this.#read].join(", ")}`);
    }
  }
}

/** A field of a message that is there only if it has a value. */
export function optional<K extends string, T>(key: K, value: T | undefined): { [key in K]?: T } {
  return value === undefined ? {} : ({ [key]: value } as { [key in K]: T });
}

function within(value: number | undefined, { least, most }: Bounds): number | undefined {
  return value !== undefined && value >= least && value <= most ? value : undefined;
}
