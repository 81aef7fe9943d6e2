import type { Secrets } from "./open-secrets.ts";

/** The name under which a value is kept that only one tool is given. */
export function toolSecretName(tool: string, name: string): string {
  return `${tool}/${name}`;
}

/** The secrets of single tools, out of a store that is opened when the first of them is asked for. */
export class ToolSecrets {
  readonly #open: (isWriting: boolean) => Promise<Secrets | undefined>;
  #opened: Promise<Secrets | undefined> | undefined;
  #known: Secrets | undefined;

  /** `open` may answer nothing when only to be read, where there is no store yet. */
  constructor(open: (isWriting: boolean) => Promise<Secrets | undefined>) {
    this.#open = open;
  }

  async get(tool: string, name: string): Promise<string | undefined> {
    return (await this.#secrets(false))?.get(toolSecretName(tool, name));
  }

  /** Undefined removes it. */
  async set(tool: string, name: string, value: string | undefined): Promise<void> {
    const secrets = await this.#secrets(value !== undefined);
    if (value === undefined) await secrets?.remove(toolSecretName(tool, name));
    else await secrets?.set(toolSecretName(tool, name), value);
  }

  /** Reads all that there are, so that they are masked from the first call on. */
  async load(): Promise<void> {
    await this.#secrets(false);
  }

  /** Values that were read here, for masking. */
  values(): Iterable<string> {
    return this.#known?.values() ?? [];
  }

  async #secrets(isWriting: boolean): Promise<Secrets | undefined> {
    if (this.#known !== undefined) return this.#known;
    // Where nothing was kept yet, there may be something by the next time.
    this.#opened ??= this.#open(isWriting).finally(() => {
      this.#opened = undefined;
    });
    this.#known = await this.#opened;
    return this.#known ?? (isWriting ? this.#secrets(true) : undefined);
  }
}
