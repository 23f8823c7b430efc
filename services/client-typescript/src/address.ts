/** Checks the addresses of gateways. Pure. */

import { invalid } from "./errors.js";

const ACCEPTED = "HOST:PORT, http://HOST:PORT or https://HOST:PORT, with a port from 1 to 65535";

/**
 * The address of a gateway as a URL without a path. `encrypted`: whether certificates are given, which a plain address
 * cannot use.
 *
 * @throws InvalidError
 */
export function gatewayUrl(address: string, encrypted: boolean): string {
  const refuse = (problem: string) => invalid("gateways", address, `${ACCEPTED} (the address ${problem})`);
  const [, scheme, place = ""] = /^(?:([^:/]*):\/\/)?(.*)$/s.exec(address) ?? [];
  if (scheme !== undefined && scheme !== "http" && scheme !== "https") throw refuse(`has the scheme "${scheme}"`);
  if (scheme === "http" && encrypted) throw refuse('has the scheme "http", and certificates are given');
  const [hostPort = "", ...path] = place.split("/");
  if (hostPort === "") throw refuse("is empty");
  if (path.join("/") !== "") throw refuse(`has the path "/${path.join("/")}"`);
  const [, host, port] = /^(\[[^\]]*\]|[^:]*):([^:]*)$/.exec(hostPort) ?? [];
  if (host === undefined || port === undefined) throw refuse("has no port");
  if (host === "") throw refuse("has no host");
  if (!/^\d+$/.test(port) || Number(port) < 1 || Number(port) > 65_535) throw refuse(`has the port "${port}"`);
  if (/[\s?#@]/.test(host) || !URL.canParse(`http://${hostPort}`)) throw refuse(`has the host "${host}"`);
  return `${scheme ?? (encrypted ? "https" : "http")}://${hostPort}`;
}
