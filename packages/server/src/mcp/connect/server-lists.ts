import { problemOfCircle, type RackIdentity } from "../../calls/index.ts";
import { reasonOf, unlessAborted } from "../../helpers/index.ts";
import { type ListName, lists } from "../wire/index.ts";
import {
  type Catalogue,
  changedLists,
  emptyCatalogue,
  readCatalogue,
  withoutValues,
} from "./catalogue/catalogue.ts";
import { refuseCircle, UpstreamError } from "./failures.ts";
import { RereadTimer, type UpstreamLimits } from "./limits.ts";
import type { RecentLines } from "./process/recent-lines.ts";
import type { UpstreamSession } from "./protocol/session.ts";

/** How often the lists are read for a call that follows an announced change, before the call fails. */
const MOST_READS = 3;

/** The connection over which lists are read. */
interface ListedServer {
  /** The session over which new requests are sent. */
  readonly session: () => UpstreamSession | undefined;
  readonly limits: () => UpstreamLimits;
  readonly lines: RecentLines;
  readonly identity: RackIdentity;
  /** The values that the connection has from its caller, which must not be kept. */
  readonly callersValues: readonly string[];
  /** Called with a new catalogue and the names of the lists that changed. If it throws, the former catalogue stays. */
  take(catalogue: Catalogue, changed: readonly ListName[]): void;
  /** Returns whether a failure to read the lists has ended the session. */
  isEndedBy(thrown: unknown, session: UpstreamSession): boolean;
}

/**
 * What a server offers. Its lists are read when it starts, after it announced a change, and after a long time without
 * one, so that no tool is called with a definition that the rack has not seen.
 */
export class ServerLists {
  catalogue = emptyCatalogue;
  readonly #server: ListedServer;
  readonly #rereading: RereadTimer;
  /** How many changes of its tools the server has announced. */
  #announced = 0;
  /** How many of these changes are in the lists that were read last. */
  #readUpTo = 0;

  constructor(server: ListedServer) {
    this.#server = server;
    this.#rereading = new RereadTimer(
      () => server.limits().refresh,
      () => this.#reread(),
      () => server.session()?.tellsOfChanges !== false,
    );
  }

  /** Whether a change was announced that the lists do not have yet. */
  get isBehind(): boolean {
    return this.#readUpTo < this.#announced;
  }

  /** Takes an announcement that came over a session, which may not be used yet. */
  announce(list: ListName, session: UpstreamSession): void {
    const isUsed = session === this.#server.session();
    // A change that is announced before the session is used may not be in the lists that are being read.
    if (list === "tools" || !isUsed) this.#announced++;
    if (isUsed) this.#rereading.soon();
  }

  /**
   * Reads the lists for a session that is not used yet, and returns a function that applies them. What is announced
   * meanwhile is read when the session is used.
   */
  async readFirst(session: UpstreamSession): Promise<() => void> {
    const announced = this.#announced;
    const catalogue = await this.#read(session);
    return () => {
      this.#take(catalogue, lists);
      this.#readUpTo = announced;
    };
  }

  /** The session for which the lists were read is used from now on. */
  sessionIsUsed(): void {
    if (this.isBehind) this.#rereading.soon();
    else this.#rereading.later();
  }

  /** Empties the lists, because the server may offer nothing any more. */
  empty(): void {
    this.#take(emptyCatalogue, lists);
  }

  /** Reads the lists again if changes were announced. */
  async catchUp(signal: AbortSignal): Promise<void> {
    const wanted = this.#announced;
    for (let reads = 0; this.#readUpTo < wanted && this.#server.session() !== undefined; reads++) {
      // Several reads may be needed, because the first one may have started before the change was announced.
      if (reads === MOST_READS) {
        const text =
          "The server told that its tools have changed, and they could not be read again, so that nothing is called on it. Its log says why.";
        throw new UpstreamError("unavailable", text);
      }
      await unlessAborted(this.#rereading.now(), signal);
    }
  }

  /** Reads the lists soon. */
  readSoon(): void {
    this.#rereading.soon();
  }

  /** Plans no more reading. */
  end(): void {
    this.#rereading.end();
  }

  async #read(session: UpstreamSession): Promise<Catalogue> {
    const { lines, limits, identity } = this.#server;
    const onProblem = (text: string) => lines.add("rack", text);
    const options = { timeout: limits().list, before: this.catalogue, onProblem };
    const catalogue = await readCatalogue(session, options);
    refuseCircle(problemOfCircle(catalogue.racks ?? [], identity));
    return catalogue;
  }

  /** Keeps the former catalogue when the new one cannot be applied. */
  #take(catalogue: Catalogue, changed: readonly ListName[]): void {
    const before = this.catalogue;
    this.catalogue = catalogue;
    try {
      if (changed.length > 0)
        this.#server.take(withoutValues(catalogue, this.#server.callersValues), changed);
    } catch (thrown) {
      this.catalogue = before;
      throw thrown;
    }
  }

  /** Reads all lists again. Ignores the result if the session was replaced meanwhile. */
  async #reread(): Promise<void> {
    const session = this.#server.session();
    if (session === undefined) return;
    const isUsed = () => session === this.#server.session();
    const announced = this.#announced;
    try {
      const before = this.catalogue;
      const catalogue = await this.#read(session);
      if (!isUsed()) return;
      this.#take(catalogue, changedLists(before, catalogue));
      this.#readUpTo = announced;
    } catch (thrown) {
      if (isUsed() && this.#server.isEndedBy(thrown, session)) return;
      this.#server.lines.add("rack", `Its lists could not be read again: ${reasonOf(thrown)}`);
    }
    if (isUsed()) this.#rereading.later();
  }
}
