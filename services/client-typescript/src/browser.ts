/**
 * The client of Borough for browsers: gRPC-Web over `fetch`, to the gRPC port of a gateway. It has no exec, which needs
 * streams in both directions, and certificates are those of the browser. It runs in Node as well.
 *
 * @packageDocumentation
 */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { BoroughClient, type CommonOptions, type Platform, sharedOf } from "./client.js";
import { linked } from "./time.js";
import { type Token, tokenSource } from "./token.js";

export * from "./common.js";

/** What a client in a browser is made of. */
export interface BrowserClientOptions extends CommonOptions {
  /** The secret that proves who the caller is: its text, or a function that returns it for each call. */
  readonly token?: Token;
  /** How requests are sent. Default: `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/** The calls of one user to one cell, from a browser. */
export class Client extends BoroughClient {
  /**
   * Checks the options. Does not connect.
   *
   * @throws {@link InvalidError} that names the invalid option.
   */
  constructor(options: BrowserClientOptions) {
    const token = options.token === undefined ? undefined : tokenSource(options.token);
    super(sharedOf(options, token, webPlatform(options.fetch)), options.cell, options.user);
  }
}

function webPlatform(fetch: typeof globalThis.fetch | undefined): Platform {
  return {
    canExec: false,
    noticesSilence: false,
    isEncrypted: false,
    connect(url) {
      const closed = new AbortController();
      const send: typeof globalThis.fetch = (input, init) => {
        const call = init?.signal ?? undefined;
        const link = linked(call, closed.signal);
        // Connect aborts the signal of each call at its end.
        call?.addEventListener("abort", link.free, { once: true });
        return (fetch ?? globalThis.fetch)(input, { ...init, signal: link.signal });
      };
      return {
        transport: createGrpcWebTransport({ baseUrl: url, fetch: send }),
        close: () => closed.abort(),
      };
    },
  };
}
