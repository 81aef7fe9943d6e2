import type { Logger } from "@toolrack/core";
import { canonicalName, hashValue } from "@toolrack/core/internal";
import type { McpServerStore } from "../../../store/index.ts";

const HASH_LENGTH = 8;
const LONGEST_NAME = 64;
/** How many names are remembered per server. Names are never forgotten, so a server could otherwise fill the store. */
const MOST_NAMES = 5_000;
/** Ends a name in the store that the server listed in several spellings. No name on the rack has this character. */
const BY_CASE = "/";

type NameStore = Pick<McpServerStore, "names" | "countNames" | "claimNames">;

/**
 * The names of what upstream servers offer: `mcp_{serverKey}_{name}`. Keys may have underscores, so the server `a` with
 * `b_c` and the server `a_b` with `c` want the same name. A client with an old list must never reach another server by it.
 * So a name that two servers ever wanted belongs to neither: both get it with a hash at its end. This does not depend on
 * which server came first, and stays so when one is removed. The same holds for names of one server that differ only by
 * case. A server with more names than are remembered gets each further name with a hash.
 */
export class RackNames {
  readonly #store: NameStore;
  readonly #logger: Logger;
  /** The servers that ever wanted a name, by the name in lower case. */
  readonly #claims = new Map<string, Set<string>>();
  /** How many names of a server are remembered. */
  readonly #counts = new Map<string, number>();
  /** The current names of a server that are not remembered, in lower case. */
  readonly #excess = new Map<string, ReadonlySet<string>>();
  /** The remembered names that a server once listed in several spellings, in lower case. */
  readonly #contested = new Map<string, Set<string>>();
  /** The current spellings of such names and of those that are not remembered, by the name in lower case. */
  readonly #spellings = new Map<string, ReadonlyMap<string, ReadonlySet<string>>>();
  /** The replaced names, by the names that replaced them, all in lower case. Made on demand. */
  #former: ReadonlyMap<string, string> | undefined;
  /** How many names the store had when they were last read. */
  #storedCount = 0;
  #writing: Promise<void> = Promise.resolve();

  private constructor(store: NameStore, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  static async open(store: NameStore, logger: Logger): Promise<RackNames> {
    const names = new RackNames(store, logger);
    await names.refresh();
    return names;
  }

  nameOf(server: string, name: string): string {
    const plain = plainName(server, name);
    const key = plain.toLowerCase();
    if (this.#isSpeltTwice(server, key)) return hashedByCase(server, plain);
    const claims = this.#claims.get(key);
    const isOwn =
      claims === undefined ? !this.#excess.get(server)?.has(key) : claims.size === 1 && claims.has(server);
    return isOwn ? plain : hashedByServer(server, plain);
  }

  /**
   * Remembers all current names of the server, given in its own spelling. Returns whether a name of another server changes
   * because of this.
   */
  claim(server: string, names: Iterable<string>): boolean {
    const fresh: string[] = [];
    const excess = new Set<string>();
    let isContested = false;
    for (const name of names) {
      const key = plainName(server, name).toLowerCase();
      if (this.#claims.get(key)?.has(server)) continue;
      if ((this.#counts.get(server) ?? 0) >= MOST_NAMES) {
        excess.add(key);
        continue;
      }
      this.#add(key, server);
      fresh.push(key);
      isContested ||= this.#claims.get(key)!.size === 2;
    }
    this.#setExcess(server, excess);
    if (fresh.length > 0) this.#write(server, fresh);
    return isContested;
  }

  /**
   * Finds names that differ only by case within one list of the server; both then get a hash. Names of different lists
   * (tools and prompts) cannot be confused. To be called after `claim`.
   */
  noteSpellings(server: string, lists: readonly (readonly string[])[]): void {
    const spellings = new Map<string, Set<string>>();
    const contested = new Set<string>();
    for (const list of lists) {
      const firsts = new Map<string, string>();
      for (const name of list) {
        const plain = plainName(server, name);
        const key = plain.toLowerCase();
        const first = firsts.get(key) ?? plain;
        firsts.set(key, first);
        if (first !== plain) contested.add(key);
        spellings.set(key, (spellings.get(key) ?? new Set()).add(plain));
      }
    }
    const fresh = [...contested].filter(
      (key) => this.#claims.get(key)?.has(server) && this.#contest(key, server),
    );
    if (fresh.length > 0)
      this.#write(
        server,
        fresh.map((key) => key + BY_CASE),
      );
    const remembered = this.#contested.get(server);
    const spelt = [...spellings].filter(([key]) => contested.has(key) || remembered?.has(key));
    this.#spellings.set(server, new Map(spelt));
    this.#former = undefined;
  }

  /** The names that replaced this one. Settings for the old name apply to them. */
  successorsOf(plain: string): string[] {
    const key = plain.toLowerCase();
    const claims = this.#claims.get(key) ?? new Set();
    const exceeding = [...this.#excess].flatMap(([server, names]) => (names.has(key) ? [server] : []));
    const servers = new Set([...(claims.size < 2 ? [] : claims), ...exceeding]);
    const spelt = [...this.#spellings].flatMap(([server, names]) =>
      [...(names.get(key) ?? [])].map((spelling) => hashedByCase(server, spelling)),
    );
    const others = [...servers].filter((server) => !this.#isSpeltTwice(server, key));
    return [...others.map((server) => hashedByServer(server, plain)), ...spelt];
  }

  /** The name that this one replaced, in lower case. Undefined when it replaced none. */
  formerNameOf(name: string): string | undefined {
    this.#former ??= new Map(this.#successions());
    return this.#former.get(name.toLowerCase());
  }

  /** Reads names that other processes on the same store added. Returns whether there were any. */
  async refresh(): Promise<boolean> {
    if ((await this.#store.countNames()) === this.#storedCount) return false;
    const names = await this.#store.names();
    this.#storedCount = names.length;
    let isNew = false;
    for (const { name, server } of names) {
      const isAdded = name.endsWith(BY_CASE)
        ? this.#contest(name.slice(0, -BY_CASE.length), server)
        : this.#add(name, server);
      isNew ||= isAdded;
    }
    return isNew;
  }

  /** Resolves when everything is written. */
  settled(): Promise<void> {
    return this.#writing;
  }

  #add(key: string, server: string): boolean {
    const claims = this.#claims.get(key);
    if (claims?.has(server)) return false;
    this.#counts.set(server, (this.#counts.get(server) ?? 0) + 1);
    if (claims === undefined) this.#claims.set(key, new Set([server]));
    else claims.add(server);
    this.#former = undefined;
    return true;
  }

  #contest(key: string, server: string): boolean {
    const contested = this.#contested.get(server) ?? new Set();
    if (contested.has(key)) return false;
    this.#contested.set(server, contested.add(key));
    return true;
  }

  #isSpeltTwice(server: string, key: string): boolean {
    return this.#contested.get(server)?.has(key) || this.#spellings.get(server)?.has(key) || false;
  }

  #setExcess(server: string, names: ReadonlySet<string>): void {
    const before = this.#excess.get(server);
    if (before === undefined && names.size === 0) return;
    if (before === undefined) {
      this.#logger.warn(
        `The MCP server "${server}" has had more than ${MOST_NAMES} names. Each new one has a hash behind it.`,
      );
    }
    this.#excess.set(server, names);
    this.#former = undefined;
  }

  *#successions(): Iterable<[successor: string, former: string]> {
    for (const [key, servers] of this.#claims)
      if (servers.size > 1) for (const server of servers) yield [hashedByServer(server, key), key];
    for (const [server, keys] of this.#excess)
      for (const key of keys) yield [hashedByServer(server, key), key];
    for (const [server, keys] of this.#spellings)
      for (const [key, names] of keys)
        for (const plain of names) yield [hashedByCase(server, plain).toLowerCase(), key];
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

function hashedByServer(server: string, plain: string): string {
  return withHash(plain, [server, plain.toLowerCase()]);
}

/** Differs from `hashedByServer`, whose result may have been the name of another tool. */
function hashedByCase(server: string, plain: string): string {
  return withHash(plain, [server, plain, "by case"]);
}

function withHash(plain: string, hashed: readonly string[]): string {
  const hash = hashValue(hashed).slice(0, HASH_LENGTH);
  return `${plain.slice(0, LONGEST_NAME - HASH_LENGTH - 1)}_${hash}`;
}
