import type { RackItem } from "../../../auth/upstream-origin.ts";
import { isReservedFrom } from "../../../offerings/reserved-schemes.ts";

/** Of one server. Those that were linked to longest ago are forgotten first. */
const MOST_LINKS = 1_000;
/** Longer ones are no addresses but what they stand for, and would be kept here as such. */
const LONGEST_URI = 8_192;
/** Whichever upstream server it is. */
const SOURCE = "mcp:";

interface Link {
  /** The tools and prompts in whose results it was, by their names on the rack. */
  readonly givers: Map<string, RackItem>;
  /** On the `performance` clock. */
  at: number;
}

/** The resources that results of a server linked to. They need not be in any list, and can be read all the same. */
export class LinkedResources {
  readonly #links = new Map<string, Link>();

  /** Takes note of a block of a result that is a link, or holds a resource. */
  note(block: Readonly<Record<string, unknown>>, giver: RackItem): void {
    const { uri } = block.type === "resource_link" ? block : ((block.resource ?? {}) as { uri?: unknown });
    if (typeof uri !== "string" || uri.length > LONGEST_URI || isReservedFrom(SOURCE, uri)) return;
    const link = this.#links.get(uri) ?? { givers: new Map(), at: 0 };
    link.givers.set(giver.name, giver);
    link.at = performance.now();
    this.#links.delete(uri);
    this.#links.set(uri, link);
    const oldest = this.#links.keys().next();
    if (this.#links.size > MOST_LINKS && oldest.value !== undefined) this.#links.delete(oldest.value);
  }

  /** When it was last linked to by something that the reader may use; undefined when it never was. */
  linkedAt(uri: string, mayUse: (item: RackItem) => boolean): number | undefined {
    const link = this.#links.get(uri);
    return link !== undefined && [...link.givers.values()].some(mayUse) ? link.at : undefined;
  }

  has(uri: string): boolean {
    return this.#links.has(uri);
  }
}
