import { isRecord } from "../../../json/is-record.ts";
import { isNews } from "../is-news.ts";

/** The longest that is looked at: news are short. */
const LONGEST_NEWS = 4096;

/**
 * What a client that does not read just now is to be told when it does. News that are told again meanwhile, as that a
 * list has changed, are told once, in the place of the last. All else is kept as it was said.
 */
export class UnreadFrames {
  readonly #frames = new Map<unknown, Uint8Array>();
  #size = 0;

  /** In bytes. */
  get size(): number {
    return this.#size;
  }

  add(frame: Uint8Array): void {
    const key = newsIn(frame) ?? frame;
    if (this.#frames.delete(key)) this.#size -= frame.length;
    this.#frames.set(key, frame);
    this.#size += frame.length;
  }

  /** All of it, which is then no longer here. */
  take(): Uint8Array[] {
    const frames = [...this.#frames.values()];
    this.#frames.clear();
    this.#size = 0;
    return frames;
  }
}

/** The text of a frame that holds news. */
function newsIn(frame: Uint8Array): string | undefined {
  if (frame.length > LONGEST_NEWS) return undefined;
  const text = Buffer.from(frame).toString();
  // The rest of it are other fields of the event, before or after.
  const data = /^data: (.+)$/m.exec(text)?.[1];
  // Most of what is said need not be read for this.
  if (data === undefined || (!data.includes("list_changed") && !data.includes("resources/updated")))
    return undefined;
  try {
    const message: unknown = JSON.parse(data);
    return isRecord(message) && isNews(message) ? text : undefined;
  } catch {
    // It is in several pieces.
    return undefined;
  }
}
