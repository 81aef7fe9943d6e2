import { canonicalName, hashValue, type Logger } from "@toolrack/core";
import type { McpServerStore } from "../../../store/mcp-servers/mcp-server-store.ts";

const HASH_LENGTH = 8;
const LONGEST_NAME = 64;

/**
 * The names of what upstream servers offer: `mcp_{serverKey}_{name}`. Keys may have underscores, so `a` with `b_c` and
 * `a_b` with `c` want one name. Whoever holds an old list must never reach another server by it: a name that two servers
 * ever wanted belongs to neither from then on, and both have it with a hash behind it. This depends on which servers
 * wanted it and never on which of them came first, and it stays so when one of them is removed.
 */
export class RackNames {
  readonly #store: Pick<McpServerStore, "names" | "claimNames">;
  readonly #logger: Logger;
  /** Which servers ever wanted a name, by the name in lower case: names that differ by case only are one. */
  readonly #claims = new Map<string, Set<string>>();
  #writing: Promise<void> = Promise.resolve();

  private constructor(store: Pick<McpServerStore, "names" | "claimNames">, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  static async open(store: Pick<McpServerStore, "names" | "claimNames">, logger: Logger): Promise<RackNames> {
    const names = new RackNames(store, logger);
    await names.refresh();
    return names;
  }

  nameOf(server: string, name: string): string {
    const plain = plainName(server, name);
    const claims = this.#claims.get(plain.toLowerCase());
    const isOwn = claims === undefined || (claims.size === 1 && claims.has(server));
    return isOwn ? plain : toldApart(server, plain);
  }

  /**
   * Remembers that the server has such names, given as the server says them. Answers whether something of another server
   * is named otherwise from now on.
   */
  claim(server: string, names: Iterable<string>): boolean {
    const fresh: string[] = [];
    let isContested = false;
    for (const name of names) {
      const key = plainName(server, name).toLowerCase();
      if (!this.#add(key, server)) continue;
      fresh.push(key);
      isContested ||= this.#claims.get(key)!.size === 2;
    }
    if (fresh.length > 0) this.#write(server, fresh);
    return isContested;
  }

  /** What a name that two servers want has become: what was decided about it concerns these. */
  successorsOf(plain: string): string[] {
    const claims = this.#claims.get(plain.toLowerCase());
    if (claims === undefined || claims.size < 2) return [];
    return [...claims].map((server) => toldApart(server, plain));
  }

  /** Learns of names that other processes on the same store remembered. Answers whether there were any. */
  async refresh(): Promise<boolean> {
    let isNew = false;
    for (const { name, server } of await this.#store.names()) isNew = this.#add(name, server) || isNew;
    return isNew;
  }

  /** Resolves when everything is written. */
  settled(): Promise<void> {
    return this.#writing;
  }

  #add(key: string, server: string): boolean {
    const claims = this.#claims.get(key);
    if (claims?.has(server)) return false;
    if (claims === undefined) this.#claims.set(key, new Set([server]));
    else claims.add(server);
    return true;
  }

  #write(server: string, names: readonly string[]): void {
    this.#writing = this.#writing
      .then(() => this.#store.claimNames(server, names))
      .catch((error: Error) => {
        this.#logger.warn(`The names of the MCP server "${server}" could not be kept: ${error.message}`);
      });
  }
}

function plainName(server: string, name: string): string {
  return canonicalName(`mcp_${server}_${name}`);
}

function toldApart(server: string, plain: string): string {
  const hash = hashValue([server, plain.toLowerCase()]).slice(0, HASH_LENGTH);
  return `${plain.slice(0, LONGEST_NAME - HASH_LENGTH - 1)}_${hash}`;
}
