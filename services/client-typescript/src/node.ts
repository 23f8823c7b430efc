/**
 * The client of Borough for Node: gRPC over HTTP/2, with plain connections, TLS or mutual TLS.
 *
 * @packageDocumentation
 */

import { readFileSync, statSync } from "node:fs";
import type { Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { TokenSource } from "./calls.js";
import { BoroughClient, type CommonOptions, DEADLINE_MS, type Platform, sharedOf } from "./client.js";
import { InvalidError, invalid } from "./errors.js";
import type { GatewayConnection } from "./pool.js";
import { NotConnectedError } from "./refusal.js";
import { LATE, within } from "./time.js";
import { type Token, tokenSource, tokenText } from "./token.js";

export * from "./common.js";

/** Messages of an answer have at most so many bytes: an explanation or a plan of a job with 100,000 tasks. */
const RESPONSE_BYTES_MAX = 64 * 1024 * 1024;
/** How long a connection may take, in milliseconds. */
const CONNECT_TIMEOUT_MS = 2_000;
/** The longest time between two questions whether the other side of a connection is there, and for their answer. */
const PING_INTERVAL_MAX_MS = 3_000;
const PING_TIMEOUT_MAX_MS = 2_000;
/** The shortest of both. */
const PING_MIN_MS = 1_000;
/** A token file is looked at again after this time, in milliseconds: whoever renews it restarts no program. */
const TOKEN_LOOK_MS = 1_000;

/** A PEM text, or the file that has it. */
export type Pem = string | { readonly file: string };

/** Whom a client trusts, and how it proves who it is. */
export interface TlsOptions {
  /** The authority that signed the certificates of the gateways. Default: those that Node trusts. */
  readonly ca?: Pem;
  /** The certificate of the client, for mutual TLS. */
  readonly certificate?: Pem;
  /** The key of that certificate. */
  readonly key?: Pem;
}

/** What a client is made of. */
export interface ClientOptions extends CommonOptions {
  /** The secret that proves who the caller is: its text, a function, or the file that has it. Default: none. */
  readonly token?: Token | { readonly file: string };
  /** Encrypts. An address with `https` encrypts without it as well, and trusts whom Node trusts. */
  readonly tls?: TlsOptions;
}

/**
 * The calls of one user to one cell.
 *
 * @example
 * ```ts
 * const client = new Client({ gateways: "127.0.0.1:7400", user: "ada", cell: "alpha", token: { file: "token" } });
 * const { outcome } = await client.jobs.run({ name: "web", task: { command: ["serve"] } });
 * ```
 */
export class Client extends BoroughClient {
  /**
   * Checks the options, and reads the files that they name. Does not connect.
   *
   * @throws {@link InvalidError} that names the invalid option.
   */
  constructor(options: ClientOptions) {
    const token = options.token === undefined ? undefined : nodeToken(options.token);
    super(sharedOf(options, token, nodePlatform(options)), options.cell, options.user);
  }
}

function nodePlatform({ tls, deadlineMs = DEADLINE_MS }: ClientOptions): Platform {
  const secure = {
    ...(tls?.ca !== undefined && { ca: pemText("tls.ca", tls.ca) }),
    ...(tls?.certificate !== undefined && { cert: pemText("tls.certificate", tls.certificate) }),
    ...(tls?.key !== undefined && { key: pemText("tls.key", tls.key) }),
  };
  if ("cert" in secure !== "key" in secure) {
    throw invalid("tls", "one of certificate and key", "both of them, or none");
  }
  return {
    canExec: true,
    noticesSilence: true,
    isEncrypted: tls !== undefined,
    connect: (url) => connection(url, secure, deadlineMs),
  };
}

type Secure = { ca?: string; cert?: string; key?: string };

function connection(url: string, secure: Secure, deadlineMs: number): GatewayConnection {
  // A peer that vanished is noticed while the next gateway can still answer in time, also by idle watches.
  const pings = {
    pingIntervalMs: Math.max(Math.min(deadlineMs / 3, PING_INTERVAL_MAX_MS), PING_MIN_MS),
    pingTimeoutMs: Math.max(Math.min(deadlineMs / 5, PING_TIMEOUT_MAX_MS), PING_MIN_MS),
  };
  const session = new Http2SessionManager(url, pings, secure);
  // Separates what was never sent from what was: an interceptor runs before each call.
  const connect: Interceptor = (next) => async (request) => {
    const state = await within(session.connect(), CONNECT_TIMEOUT_MS);
    if (state === LATE)
      session.abort(new NotConnectedError(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`)));
    if (state === LATE || state === "error") throw new NotConnectedError(session.error() ?? new Error("no connection"));
    return next(request);
  };
  const transport = createGrpcTransport({
    baseUrl: url,
    sessionManager: session,
    interceptors: [connect],
    readMaxBytes: RESPONSE_BYTES_MAX,
  });
  return { transport, close: () => session.abort() };
}

function nodeToken(token: Token | { readonly file: string }): TokenSource {
  return typeof token === "object" ? fileToken(token.file) : tokenSource(token);
}

function fileToken(file: string): TokenSource {
  const named = `the file ${file}`;
  let [text, changedMs] = [tokenText(fileText("token", file), named), statSync(file).mtimeMs];
  let lookedMs = performance.now();
  const look = () => {
    const { mtimeMs } = statSync(file);
    if (mtimeMs !== changedMs) text = tokenText(fileText("token", file), named);
    changedMs = mtimeMs;
  };
  return {
    named,
    text() {
      if (performance.now() - lookedMs < TOKEN_LOOK_MS) return text;
      lookedMs = performance.now();
      try {
        look();
      } catch {
        // A file that is being replaced: the token of before may still do.
      }
      return text;
    },
  };
}

function pemText(field: string, pem: Pem): string {
  return typeof pem === "string" ? pem : fileText(field, pem.file);
}

function fileText(field: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "no text";
    throw new InvalidError([{ field, value: `${file} (${code})`, accepted: "a file that this user can read" }], {
      cause: error,
    });
  }
}
