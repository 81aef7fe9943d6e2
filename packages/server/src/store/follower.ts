import { reasonOf } from "../helpers/index.ts";

/**
 * Data that other processes on the same store may change. A "look" asks the store once whether the data has
 * changed.
 */
export interface Followed {
  /**
   * Reads a value that is different after every change of the data. Without `version`, every look calls
   * `refresh`.
   */
  readonly version?: () => Promise<unknown>;
  /**
   * Reads the changes. When it rejects, it is called again at the next look. `isAnnounced`: the database says that there
   * is a change.
   */
  readonly refresh: (isAnnounced: boolean) => Promise<void>;
  /** Called when a look fails, unless the look before failed for the same reason. Must not throw. */
  readonly failed: (error: unknown) => void;
  /** Seconds from one look to the next. Default 1. */
  readonly seconds?: number;
  /** While it returns false, the store is not asked. */
  readonly isNeeded?: () => boolean;
}

export interface Following {
  /**
   * Looks at once, even while another look is under way, because that one may have read the data before its
   * latest change. Never rejects.
   */
  look(): Promise<void>;
  /** Ends the looks. Resolves when the look under way has ended; never rejects. */
  stop(): Promise<void>;
}

type ReadVersion = (topic: string, read: () => Promise<unknown>) => Promise<unknown>;

interface Topic {
  readonly name: string;
  readonly followed: Followed;
  underWay: Promise<void> | undefined;
  /** Whether a change was announced while a look was under way, which may have read the data before it. */
  isBehind: boolean;
  look(readVersion: ReadVersion): Promise<void>;
}

/** Reads the version of each topic that follows its data by one, without regard to what was read before. */
const readNow: ReadVersion = (_, read) => read();

/**
 * Tells all rooms what other processes changed in the store: at once when the database announces it, and otherwise by
 * asking the store once a second, with one timer for all topics. Topics do not wait for each other, and no topic has two
 * looks at a time, so that a store that hangs gets no more queries. Does not keep the process alive.
 */
export class Follower {
  readonly #topics = new Set<Topic>();
  /** The changes of each topic that the database announces, as they were last counted. Undefined: it announces none. */
  #counts: Map<string, number> | undefined;
  /** Topics whose count had changed at the last heartbeat. A transaction that raised it may not have ended by then. */
  #raised: ReadonlySet<string> = new Set();
  #timer: NodeJS.Timeout | undefined;
  #seconds = 0;
  #isClosed = false;

  /** Follows the data until `stop` is called. */
  follow(name: string, followed: Followed): Following {
    const topic = makeTopic(name, followed);
    if (!this.#isClosed) {
      this.#topics.add(topic);
      this.#timer ??= setInterval(() => this.#look(), 1_000).unref();
    }
    return {
      look: () => topic.look(readNow),
      stop: async () => {
        this.#topics.delete(topic);
        if (this.#topics.size === 0) this.#stopTimer();
        await topic.underWay;
      },
    };
  }

  /** Looks at a topic at once, because the database has announced a change. */
  announce(name: string): void {
    for (const topic of this.#topics) if (topic.name === name) this.#begin(topic, readAnew);
  }

  /** Compares how often each topic was changed with what is known, and looks at those whose announcement was missed. */
  compare(counts: Readonly<Record<string, number>>): void {
    const known = this.#counts;
    this.#counts = new Map(Object.entries(counts));
    const raised = new Set<string>();
    for (const [name, count] of this.#counts) if (known?.get(name) !== count) raised.add(name);
    if (known !== undefined) for (const name of new Set([...raised, ...this.#raised])) this.announce(name);
    this.#raised = raised;
  }

  /** Looks at all topics that the database announces, because announcements were missed. */
  catchUp(): void {
    for (const name of this.#counts?.keys() ?? []) this.announce(name);
  }

  /** Resolves when no look is under way any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer();
    await Promise.all([...this.#topics].map(({ underWay }) => underWay));
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    this.#seconds++;
    const versions = new Map<string, Promise<unknown>>();
    const readOnce: ReadVersion = (name, read) => {
      const known = versions.get(name) ?? read();
      versions.set(name, known);
      return known;
    };
    for (const topic of this.#topics) {
      const { name, followed } = topic;
      if (this.#counts?.has(name)) continue;
      if (this.#seconds % (followed.seconds ?? 1) === 0) this.#begin(topic, readOnce);
    }
  }

  #begin(topic: Topic, readVersion: ReadVersion): void {
    if (this.#isClosed || topic.followed.isNeeded?.() === false) return;
    if (topic.underWay !== undefined) {
      topic.isBehind ||= readVersion === readAnew;
      return;
    }
    topic.isBehind = false;
    topic.underWay = topic.look(readVersion).finally(() => {
      topic.underWay = undefined;
      if (topic.isBehind && this.#topics.has(topic)) this.#begin(topic, readAnew);
    });
  }
}

/** Gives a version that is new each time: what the database has announced is read in any case. */
const readAnew: ReadVersion = async () => Symbol();

function makeTopic(name: string, followed: Followed): Topic {
  const { version, refresh, failed } = followed;
  let seen: unknown;
  let lastFailure: string | undefined;
  const look = async (readVersion: ReadVersion) => {
    try {
      // The version is read before the refresh: a change during the refresh has a newer version, which the next look
      // sees.
      const now = version && (await readVersion(name, version));
      if (version === undefined || now !== seen) await refresh(readVersion === readAnew);
      seen = now;
      lastFailure = undefined;
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== lastFailure) failed(error);
      lastFailure = reason;
    }
  };
  return { name, followed, underWay: undefined, isBehind: false, look };
}
