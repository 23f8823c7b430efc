/** Reads amounts and durations as job files have them. Pure. Each returns undefined for what it cannot read exactly. */

const BYTES: Record<string, number> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

const DURATIONS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Thousandths of a core: from a number of cores, `"0.5"` or `"500m"`. */
export function coresMillis(value: unknown): number | undefined {
  if (typeof value === "number") return exact(value * 1_000);
  const [, number, milli] = match(value, /^(\d+(?:\.\d+)?)(m?)$/);
  return number === undefined ? undefined : exact(Number(number) * (milli ? 1 : 1_000));
}

/** Bytes: from a number, `"64MiB"`, `"64Mi"` or `"1.5G"`; with `perSecond` also `"10MiB/s"`. */
export function bytesOf(value: unknown, perSecond = false): number | undefined {
  if (typeof value === "number") return exact(value);
  const text = typeof value === "string" && perSecond ? value.replace(/\/s$/, "") : value;
  const [, number, prefix = ""] = match(text, /^(\d+(?:\.\d+)?)([kMGTP]i?|Ki)?B?$/);
  const factor = BYTES[prefix];
  return number === undefined || factor === undefined ? undefined : exact(Number(number) * factor);
}

/** Milliseconds: from a number of milliseconds, `"250ms"`, `"5s"` or `"1m30s"`. */
export function durationMs(value: unknown): number | undefined {
  if (typeof value === "number") return exact(value);
  if (typeof value !== "string" || !/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(value)) return undefined;
  const parts = value.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g);
  return exact([...parts].reduce((sum, [, number, unit = ""]) => sum + Number(number) * (DURATIONS[unit] ?? 0), 0));
}

/** The shortest text of a duration. */
export function durationText(ms: number): string {
  const unit = Object.entries(DURATIONS).findLast(([, size]) => ms >= size && ms % size === 0);
  return unit ? `${ms / unit[1]}${unit[0]}` : `${ms}ms`;
}

/** A whole number that is not negative. Rounds away what binary fractions add, and nothing else. */
function exact(number: number): number | undefined {
  const whole = Math.round(number);
  const fits = Number.isSafeInteger(whole) && whole >= 0 && Math.abs(number - whole) < 1e-6;
  return fits ? whole : undefined;
}

function match(value: unknown, pattern: RegExp): readonly (string | undefined)[] {
  return typeof value === "string" ? (pattern.exec(value) ?? []) : [];
}
