import { createHash } from "node:crypto";
import { join } from "node:path";
import { type EgressProxy, openEgressProxy } from "./open-egress-proxy.ts";

/** One proxy for each set of grants, opened when the first worker with them starts. */
export class EgressProxies {
  readonly #directory: string;
  readonly #proxies = new Map<string, Promise<EgressProxy>>();

  /** The directory's path must be short, as addresses of unix sockets are, and closed to other users. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  async socketFor(hosts: readonly string[]): Promise<string> {
    const grants = [...new Set(hosts)].sort();
    const name = createHash("sha256").update(JSON.stringify(grants)).digest("hex").slice(0, 16);
    let proxy = this.#proxies.get(name);
    if (proxy === undefined) {
      proxy = openEgressProxy(join(this.#directory, `${name}.sock`), grants);
      this.#proxies.set(name, proxy);
      proxy.catch(() => this.#proxies.delete(name));
    }
    return (await proxy).socketPath;
  }

  async close(): Promise<void> {
    const proxies = await Promise.allSettled(this.#proxies.values());
    for (const proxy of proxies) if (proxy.status === "fulfilled") proxy.value.close();
  }
}
