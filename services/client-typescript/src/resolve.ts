/** The addresses behind a name, as a load balancer wants them. Pure. */

import type { Endpoint } from "./gen/borough/v1/name_pb.js";
import { type EndpointItem, keyOf } from "./watch/endpoints.js";

/** Where one task answers. */
export interface Address {
  /** IP address or host name. */
  readonly host: string;
  /** The number of the port. */
  readonly port: number;
  /** Share of traffic relative to the others, 1 to 255. */
  readonly weight: number;
  /** The index of the task in its job. */
  readonly index: number;
  /** The attempt. After its withdrawal it never comes back. */
  readonly incarnation: bigint;
}

/** The address of a port of an endpoint. Absent: it has no port of the name. */
export function addressOf(endpoint: Endpoint, port: string | undefined): Address | undefined {
  const found = port === undefined ? endpoint.ports[0] : endpoint.ports.find(({ name }) => name === port);
  if (found === undefined) return undefined;
  const { host, weight, index, incarnation } = endpoint;
  return { host, port: found.number, weight, index, incarnation };
}

/** The addresses of the endpoints that `isWanted`, each time they have changed. */
export async function* addressItems(
  items: AsyncIterable<EndpointItem>,
  port: string | undefined,
  isWanted: (address: Address) => boolean = () => true,
): AsyncGenerator<readonly Address[], void> {
  let known = new Map<string, Endpoint>();
  let last: string | undefined;
  for await (const item of items) {
    if (item.type === "snapshot") known = new Map(item.endpoints.map((endpoint) => [keyOf(endpoint), endpoint]));
    else if (item.type === "published") known.set(keyOf(item.endpoint), item.endpoint);
    else if (item.type === "withdrawn") known.delete(keyOf(item.endpoint));
    else continue;
    const addresses = [...known.values()]
      .map((endpoint) => addressOf(endpoint, port))
      .filter((address): address is Address => address !== undefined && isWanted(address))
      .sort((one, other) => one.index - other.index);
    const text = addresses.map((address) => Object.values(address).join()).join(";");
    // A change of its health, or of another port, is none of an address.
    if (text !== last) yield addresses;
    last = text;
  }
}
