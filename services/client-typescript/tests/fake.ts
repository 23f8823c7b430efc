/** A small gateway for tests: real gRPC over HTTP/2 on loopback, with handlers that a test gives. */

import { createServer as createServer1, type Server } from "node:http";
import { createServer as createServer2, type Http2Server, type ServerHttp2Session } from "node:http2";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { create } from "@bufbuild/protobuf";
import { type Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { Client, type ClientOptions } from "../src/node.js";

/** A gateway that runs. */
export interface FakeGateway {
  readonly address: string;
  /** Cuts every connection. */
  cut(): void;
  stop(): Promise<void>;
}

/** Starts a gateway. `web`: it speaks gRPC-Web over HTTP/1.1, as the HTTP port of a gateway does. */
export async function fakeGateway(
  routes: (router: ConnectRouter) => void,
  { web = false, port = 0 }: { web?: boolean; port?: number } = {},
): Promise<FakeGateway> {
  const handler = connectNodeAdapter({ routes });
  const sockets = new Set<Socket | ServerHttp2Session>();
  const server: Server | Http2Server = web ? createServer1(handler) : createServer2(handler);
  server.on(web ? "connection" : "session", (socket: Socket | ServerHttp2Session) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}

/** A client with short pauses. */
export function clientOf(gateways: readonly string[], options: Partial<ClientOptions> = {}): Client {
  return new Client({
    gateways,
    user: "ada",
    cell: "alpha",
    retry: { backoffInitialMs: 5, backoffMaxMs: 20 },
    ...options,
  });
}

/** A refusal as a gateway sends it. */
export function refusal(code: Code, reason: string, message: string, retryMs?: number): ConnectError {
  const error = new ConnectError(message, code, undefined, [
    { desc: ErrorInfoSchema, value: create(ErrorInfoSchema, { reason, domain: "borough", metadata: { node: "n1" } }) },
    ...(retryMs === undefined
      ? []
      : [{ desc: RetryInfoSchema, value: { retryDelay: { seconds: 0n, nanos: retryMs * 1e6 } } }]),
  ]);
  return error;
}

/** A port on which nobody listens. */
export async function closedAddress(): Promise<string> {
  const gateway = await fakeGateway(() => {});
  await gateway.stop();
  return gateway.address;
}

/** A server that takes connections and says nothing. */
export async function silentServer(): Promise<{ address: string; stop(): void }> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket.on("error", () => {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}
