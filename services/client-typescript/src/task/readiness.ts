/** Says whether a task is ready, to the `http` probe of its job. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { taskPort } from "./identity.js";

/**
 * The readiness of this task. Borough publishes its endpoint when the probe has passed. A task that becomes not ready
 * for longer than its probe bears is started again.
 *
 * @example
 * ```ts
 * const readiness = new Readiness();
 * await readiness.listen({ port: "health" }); // of a job with `health: { http: { port: "health", path: "/ready" } }`
 * await loadEverything();
 * readiness.set(true);
 * ```
 */
export class Readiness {
  #ready = false;
  #why = "starting";
  #server: Server | undefined;

  /** Whether the task is ready. */
  get ready(): boolean {
    return this.#ready;
  }

  /**
   * Says that the task is ready, or is not.
   *
   * @param why - The text that the probe gets meanwhile.
   */
  set(ready: boolean, why = ready ? "ready" : "not ready"): void {
    this.#ready = ready;
    this.#why = why;
  }

  /** Answers a request with 200 if the task is ready, else with 503: for a server that the task has already. */
  readonly handle = (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(this.#ready ? 200 : 503, { "content-type": "text/plain" });
    response.end(`${this.#why}\n`);
  };

  /**
   * Starts a server that answers only this. Returns the number of its port.
   *
   * @param options - `port`: the name of a port of the task, or a number. `path`: default `/ready`. `host`: default
   * all.
   */
  async listen(options: {
    readonly port: string | number;
    readonly path?: string;
    readonly host?: string;
  }): Promise<number> {
    const { port, path = "/ready", host } = options;
    const number = typeof port === "string" ? taskPort(port) : port;
    const server = createServer((request, response) => {
      if (new URL(request.url ?? "/", "http://task").pathname === path) return this.handle(request, response);
      response.writeHead(404).end();
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen(number, host, resolve);
    });
    // It must not keep a task alive that has done its work.
    server.unref();
    this.#server = server;
    return (server.address() as AddressInfo).port;
  }

  /** Ends the server. */
  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    server?.closeAllConnections();
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()));
  }
}
