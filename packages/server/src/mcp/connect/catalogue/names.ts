import type { Logger } from "@toolrack/core";
import { canonicalName, hashValue } from "@toolrack/core/internal";
import type { McpServerStore } from "../../../store/index.ts";

const HASH_LENGTH = 8;
const LONGEST_NAME = 64;
/** Of one server, those that are remembered: what it lists is its own choice, and nothing is ever forgotten. */
const MOST_NAMES = 5_000;
/** Behind a name in the store: the server listed it in more than one spelling. No name on the rack has this sign. */
const BY_CASE = "/";

type NameStore = Pick<McpServerStore, "names" | "countNames" | "claimNames">;

/**
 * The names of what upstream servers offer: `mcp_{serverKey}_{name}`. Keys may have underscores, so `a` with `b_c` and
 * `a_b` with `c` want one name. Whoever holds an old list must never reach another server by it: a name that two servers
 * ever wanted belongs to neither from then on, and both have it with a hash behind it. This depends on which servers
 * wanted it and never on which of them came first, and it stays so when one of them is removed. The same holds for names
 * that one server listed at once and that differ by case only: whoever calls one must not reach the other. A server that
 * had more names than are remembered has each further one with a hash from the start.
 */
export class RackNames {
  readonly #store: NameStore;
  readonly #logger: Logger;
  /** Which servers ever wanted a name, by the name in lower case: names that differ by case only are one. */
  readonly #claims = new Map<string, Set<string>>();
  /** How many names of a server are remembered. */
  readonly #counts = new Map<string, number>();
  /** What a server has now beyond those, in lower case. */
  readonly #excess = new Map<string, ReadonlySet<string>>();
  /** Names that a server listed in several spellings at once, in lower case: those that are remembered. */
  readonly #contested = new Map<string, Set<string>>();
  /** Such names as a server lists them now, and those that are not remembered: how each is spelt, by lower case. */
  readonly #spellings = new Map<string, ReadonlyMap<string, ReadonlySet<string>>>();
  /** Names that were given up, by those that took their place, all in lower case. Made when it is asked for. */
  #former: ReadonlyMap<string, string> | undefined;
  /** How many names the store had when they were read. */
  #read = 0;
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
    if (this.#isSpeltTwice(server, key)) return toldApartByCase(server, plain);
    const claims = this.#claims.get(key);
    const isOwn =
      claims === undefined ? !this.#excess.get(server)?.has(key) : claims.size === 1 && claims.has(server);
    return isOwn ? plain : toldApart(server, plain);
  }

  /**
   * Remembers that the server has such names, given as the server says them: all that it has now. Answers whether
   * something of another server is named otherwise from now on.
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
    this.#exceed(server, excess);
    if (fresh.length > 0) this.#write(server, fresh);
    return isContested;
  }

  /**
   * Learns how the server spells what it has now: in one list, names that differ by case only belong to nobody. Those of
   * two lists, its tools and its prompts, never meet. Comes after `claim`.
   */
  tellApart(server: string, lists: readonly (readonly string[])[]): void {
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

  /** What a name has become that servers want and do not have: what was decided about it concerns these. */
  successorsOf(plain: string): string[] {
    const key = plain.toLowerCase();
    const claims = this.#claims.get(key) ?? new Set();
    const exceeding = [...this.#excess].flatMap(([server, names]) => (names.has(key) ? [server] : []));
    const servers = new Set([...(claims.size < 2 ? [] : claims), ...exceeding]);
    const spelt = [...this.#spellings].flatMap(([server, names]) =>
      [...(names.get(key) ?? [])].map((spelling) => toldApartByCase(server, spelling)),
    );
    const others = [...servers].filter((server) => !this.#isSpeltTwice(server, key));
    return [...others.map((server) => toldApart(server, plain)), ...spelt];
  }

  /** The other way round, in lower case. Undefined for a name that took the place of none. */
  formerNameOf(name: string): string | undefined {
    this.#former ??= new Map(this.#successions());
    return this.#former.get(name.toLowerCase());
  }

  /** Learns of names that other processes on the same store remembered. Answers whether there were any. */
  async refresh(): Promise<boolean> {
    if ((await this.#store.countNames()) === this.#read) return false;
    const names = await this.#store.names();
    this.#read = names.length;
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

  #exceed(server: string, names: ReadonlySet<string>): void {
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
      if (servers.size > 1) for (const server of servers) yield [toldApart(server, key), key];
    for (const [server, keys] of this.#excess) for (const key of keys) yield [toldApart(server, key), key];
    for (const [server, keys] of this.#spellings)
      for (const [key, names] of keys)
        for (const plain of names) yield [toldApartByCase(server, plain).toLowerCase(), key];
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
  return withHash(plain, [server, plain.toLowerCase()]);
}

/** Never the name by which the same is told apart from that of another server: that may have been another tool's. */
function toldApartByCase(server: string, plain: string): string {
  return withHash(plain, [server, plain, "by case"]);
}

function withHash(plain: string, hashed: readonly string[]): string {
  const hash = hashValue(hashed).slice(0, HASH_LENGTH);
  return `${plain.slice(0, LONGEST_NAME - HASH_LENGTH - 1)}_${hash}`;
}
