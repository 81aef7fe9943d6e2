import type { Surroundings } from "./expand.ts";

/** What stands for a value that could not be read. */
const UNREADABLE = Symbol("unreadable");

/** Remembers which secrets were looked up and what was found, so that it can tell when that is no longer so. */
export class FollowedSecrets {
  /** To be used in place of those that were given. */
  readonly surroundings: Surroundings;
  readonly #look: Surroundings["secret"];
  readonly #found = new Map<string, string | undefined | typeof UNREADABLE>();

  constructor(surroundings: Surroundings) {
    this.#look = (name) => surroundings.secret(name);
    this.surroundings = {
      ...surroundings,
      secret: async (name) => {
        this.#found.set(name, UNREADABLE);
        const value = await this.#look(name);
        this.#found.set(name, value);
        return value;
      },
    };
  }

  /** Whether one that was looked up has another value now than it had then. Of one that cannot be read nothing is known. */
  async changed(): Promise<boolean> {
    for (const [name, before] of this.#found) {
      const now = await this.#look(name).catch(() => before);
      if (now !== before) return true;
    }
    return false;
  }
}
