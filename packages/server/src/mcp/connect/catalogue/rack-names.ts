import type { Logger } from "@toolrack/core";
import { canonicalName, hashValue } from "@toolrack/core/internal";
import { isReservedName } from "../../../calls/index.ts";
import type { McpServerStore } from "../../../store/index.ts";

const HASH_LENGTH = 8;
/**
 * Clients put their own prefix before a name, such as `mcp__toolrack__`, and models take at most 64 characters. A longer
 * name would be cut or refused there.
 */
const LONGEST_NAME = 64 - "mcp__toolrack__".length;
/** How many names are remembered per server. Names are never forgotten, so a server could otherwise fill the store. */
const MOST_NAMES = 5_000;
/**
 * The last character of a name in the store that the server listed in several spellings. No name on the rack
 * has this character.
 */
const BY_CASE = "/";

type NameStore = Pick<McpServerStore, "names" | "countNames" | "claimNames">;

/** The names of one server. A `key` is a name on the rack in lower case, and so are the names in all sets. */
class ServerNames {
  /** The names that the store remembers for the server. */
  readonly claimed = new Set<string>();
  /** The remembered names that the server once listed in several spellings, which differ by case. */
  readonly contested = new Set<string>();
  /** The current names that are not remembered, because the server has had too many. */
  excess: ReadonlySet<string> = new Set();
  /** The current spellings of contested names, by key. */
  spellings: ReadonlyMap<string, ReadonlySet<string>> = new Map();

  isSpeltTwice(key: string): boolean {
    return this.contested.has(key) || this.spellings.has(key);
  }
}

/**
 * The names of what upstream servers offer: `mcp_{serverKey}_{name}`, or with the prefix that the entry chooses, at most 49 characters. Keys may have underscores, so the server
 * `a` with `b_c` and the server `a_b` with `c` want the same name. A client with an old list must never reach
 * another server by that name. So a name that two servers ever wanted belongs to neither: both get it with a
 * hash at its end. This does not depend on which server came first, and stays so when one is removed. The same
 * holds for names of one server that differ only by case. A server with more names than are remembered gets
 * each further name with a hash.
 */
export class RackNames {
  readonly #store: NameStore;
  readonly #logger: Logger;
  readonly #servers = new Map<string, ServerNames>();
  /** The prefixes that entries choose, by server. */
  readonly #prefixes = new Map<string, string>();
  /** The servers that ever wanted a name, by the name in lower case. */
  readonly #claims = new Map<string, Set<string>>();
  /** The replaced names, by the names that replaced them, all in lower case. */
  readonly #former = new Map<string, string>();
  /** Shorter names, by the names that earlier versions of the rack gave the same things, which are in lower case. */
  readonly #shortened = new Map<string, string>();
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

  /** Sets what stands before the names of a server. Undefined: `mcp_{serverKey}_`. */
  setPrefix(server: string, prefix: string | undefined): void {
    if (prefix === undefined) this.#prefixes.delete(server);
    else this.#prefixes.set(server, prefix);
  }

  nameOf(server: string, name: string): string {
    const plain = this.#plainName(server, name);
    const key = plain.toLowerCase();
    const own = this.#of(server);
    const claims = this.#claims.get(key);
    const isOwn = claims === undefined ? !own.excess.has(key) : claims.size === 1 && own.claimed.has(key);
    const isSpeltTwice = own.isSpeltTwice(key);
    if (isOwn && !isSpeltTwice) {
      const earlier = canonicalName(`mcp_${server}_${name}`).toLowerCase();
      if (earlier !== key) {
        this.#former.set(key, earlier);
        this.#shortened.set(earlier, plain);
      }
      return plain;
    }
    const hashed = isSpeltTwice ? hashedByCase(server, plain) : hashedByServer(server, plain);
    this.#former.set(hashed.toLowerCase(), key);
    return hashed;
  }

  /**
   * Remembers all current names of the server, given in its own spelling. Returns whether a name of another server changes
   * because of this.
   */
  claim(server: string, names: Iterable<string>): boolean {
    const own = this.#of(server);
    const fresh: string[] = [];
    const excess = new Set<string>();
    for (const name of names) {
      const key = this.#plainName(server, name).toLowerCase();
      if (own.claimed.has(key)) continue;
      if (own.claimed.size >= MOST_NAMES) excess.add(key);
      else if (this.#add(key, server)) fresh.push(key);
    }
    if (own.excess.size === 0 && excess.size > 0) {
      this.#logger.warn(
        `The MCP server "${server}" has had more than ${MOST_NAMES} names. Each new one has a hash behind it.`,
      );
    }
    own.excess = excess;
    this.#write(server, fresh);
    return fresh.some((key) => this.#claims.get(key)?.size === 2);
  }

  /**
   * Finds names that differ only by case within one list of the server; both then get a hash. Names of different lists
   * (tools and prompts) cannot be confused. To be called after `claim`.
   */
  noteSpellings(server: string, lists: readonly (readonly string[])[]): void {
    const own = this.#of(server);
    const spellings = new Map<string, Set<string>>();
    const doubled = new Set<string>();
    for (const list of lists) {
      const firsts = new Map<string, string>();
      for (const name of list) {
        const plain = this.#plainName(server, name);
        const key = plain.toLowerCase();
        const first = firsts.get(key) ?? plain;
        firsts.set(key, first);
        if (first !== plain) doubled.add(key);
        spellings.set(key, (spellings.get(key) ?? new Set()).add(plain));
      }
    }
    const fresh = [...doubled].filter((key) => own.claimed.has(key) && !own.contested.has(key));
    for (const key of fresh) own.contested.add(key);
    this.#write(
      server,
      fresh.map((key) => key + BY_CASE),
    );
    own.spellings = new Map([...spellings].filter(([key]) => doubled.has(key) || own.contested.has(key)));
  }

  /** The names that replaced the name `plain`. Settings for `plain` apply to them. */
  successorsOf(plain: string): string[] {
    const key = plain.toLowerCase();
    const isShared = (this.#claims.get(key)?.size ?? 0) > 1;
    const shortened = this.#shortened.get(key);
    const servers = [...this.#servers];
    const hashed = servers.filter(
      ([, own]) => !own.isSpeltTwice(key) && (own.excess.has(key) || (isShared && own.claimed.has(key))),
    );
    return [
      ...(shortened === undefined ? [] : [shortened]),
      ...hashed.map(([server]) => hashedByServer(server, plain)),
      ...servers.flatMap(([server, { spellings }]) =>
        [...(spellings.get(key) ?? [])].map((spelling) => hashedByCase(server, spelling)),
      ),
    ];
  }

  /** The name, in lower case, that this name replaced. Undefined when it replaced none. */
  formerNameOf(name: string): string | undefined {
    return this.#former.get(name.toLowerCase());
  }

  /** Reads names that other processes on the same store added. Returns whether there were any. */
  async refresh(): Promise<boolean> {
    if ((await this.#store.countNames()) === this.#storedCount) return false;
    const names = await this.#store.names();
    this.#storedCount = names.length;
    let isNew = false;
    for (const { name, server } of names) {
      const key = name.endsWith(BY_CASE) ? name.slice(0, -BY_CASE.length) : undefined;
      const { contested } = this.#of(server);
      const isAdded = key === undefined ? this.#add(name, server) : !contested.has(key);
      if (key !== undefined) contested.add(key);
      isNew ||= isAdded;
    }
    return isNew;
  }

  /** Resolves when all names are written to the store, or could not be written. */
  settled(): Promise<void> {
    return this.#writing;
  }

  /** The name without a hash. A server cannot give its tools names that are the rack's own, whatever its prefix. */
  #plainName(server: string, name: string): string {
    const prefix = this.#prefixes.get(server);
    const chosen = prefix === undefined ? undefined : canonicalName(`${prefix}${name}`, LONGEST_NAME);
    return chosen === undefined || isReservedName(chosen) ? usualName(server, name) : chosen;
  }

  #of(server: string): ServerNames {
    const own = this.#servers.get(server) ?? new ServerNames();
    this.#servers.set(server, own);
    return own;
  }

  /** Adds a name. Returns whether it is new for this server. */
  #add(key: string, server: string): boolean {
    const { claimed } = this.#of(server);
    if (claimed.has(key)) return false;
    claimed.add(key);
    this.#claims.set(key, (this.#claims.get(key) ?? new Set()).add(server));
    return true;
  }

  #write(server: string, names: readonly string[]): void {
    if (names.length === 0) return;
    this.#writing = this.#writing
      .then(() => this.#store.claimNames(server, names))
      .catch((error: Error) => {
        this.#logger.warn(`The names of the MCP server "${server}" could not be kept: ${error.message}`);
      });
  }
}

/** A key that begins with `mcp` itself, such as `mcp-server-git`, does not double the prefix: `mcp_server-git_log`. */
function usualName(server: string, name: string): string {
  const key = server.replace(/^(?:mcp[-_. ]+)+(?=\w)/i, "");
  return canonicalName(`mcp_${key}_${name}`, LONGEST_NAME);
}

function hashedByServer(server: string, plain: string): string {
  return withHash(plain, [server, plain.toLowerCase()]);
}

/** Gives another name than `hashedByServer`, because that name may have belonged to another tool before. */
function hashedByCase(server: string, plain: string): string {
  return withHash(plain, [server, plain, "by case"]);
}

function withHash(plain: string, hashed: readonly string[]): string {
  const hash = hashValue(hashed).slice(0, HASH_LENGTH);
  return `${plain.slice(0, LONGEST_NAME - HASH_LENGTH - 1)}_${hash}`;
}
