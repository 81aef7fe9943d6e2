import { createHash } from "node:crypto";

/** A list as it was when it was last looked at. */
export class KnownList {
  #known: string | undefined;
  #doubts = 0;

  /** To be called when it may have changed. */
  doubt(): void {
    this.#doubts++;
  }

  /** Says whether it is another one than before. In doubt it is. Never rejects. */
  async look(read: () => unknown): Promise<boolean> {
    const before = this.#known;
    const doubts = this.#doubts;
    const now = await digestOf(read);
    // What changed while it was being read may be in it or not.
    this.#known = doubts === this.#doubts ? now : undefined;
    return now === undefined || now !== before;
  }
}

async function digestOf(read: () => unknown): Promise<string | undefined> {
  try {
    return createHash("sha256")
      .update(JSON.stringify(await read()))
      .digest("base64");
  } catch {
    return undefined;
  }
}
