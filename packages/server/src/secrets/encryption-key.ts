import { randomBytes } from "node:crypto";
import { chmod, link, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeOwnFolder } from "../host/make-own-folder.ts";
import type { Keyring } from "./os-keyring.ts";
import { SecretError } from "./secret-error.ts";
import { KEY_BYTES } from "./value-cipher.ts";

const form = /^(file|keyring):([A-Za-z0-9_-]+)$/;

/**
 * The key that secrets are encrypted with. The file `key` says where it is: `keyring:<account>`, or `file:<key>` where
 * there is no keyring. A keyring that is locked for once is therefore never mistaken for one without a key.
 */
export class EncryptionKey {
  readonly #file: string;
  readonly #keyring: () => Promise<Keyring | undefined>;

  constructor(directory: string, keyring: () => Promise<Keyring | undefined>) {
    this.#file = join(directory, "key");
    this.#keyring = keyring;
  }

  /** Nothing when no key has been made yet. Throws `SecretError` when it cannot be had. */
  async read(): Promise<Buffer | undefined> {
    const text = await readFile(this.#file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const [, place, rest] = form.exec(text.trim()) ?? [];
    if (place === undefined || rest === undefined) throw this.#unusable("it is damaged");
    await closeToOthers(this.#file);
    return this.#decode(place === "file" ? rest : await this.#fromKeyring(rest));
  }

  /** Makes one if need be. Two processes that do so at once agree on one. */
  async ensure(): Promise<Buffer> {
    const existing = await this.read();
    if (existing !== undefined) return existing;
    await this.#write(await this.#place(randomBytes(KEY_BYTES).toString("base64url")));
    const key = await this.read();
    if (key === undefined) throw this.#unusable("it vanished while it was being made");
    return key;
  }

  async #place(key: string): Promise<string> {
    const account = randomBytes(12).toString("hex");
    try {
      const keyring = await this.#keyring();
      if (keyring === undefined) return `file:${key}`;
      await keyring.write(account, key);
      return `keyring:${account}`;
    } catch {
      return `file:${key}`;
    }
  }

  async #fromKeyring(account: string): Promise<string> {
    const keyring = await this.#keyring();
    const key = await keyring?.read(account).catch((error: Error) => {
      throw this.#unusable(`the key is in the keyring of the system, which says: ${error.message}`);
    });
    if (key !== undefined) return key;
    throw this.#unusable(
      keyring === undefined
        ? "the key is in the keyring of the system, which cannot be reached from here"
        : "the keyring of the system does not have the key any more",
    );
  }

  #decode(text: string): Buffer {
    const key = Buffer.from(text, "base64url");
    if (key.length !== KEY_BYTES) throw this.#unusable("it is damaged");
    return key;
  }

  async #write(line: string): Promise<void> {
    makeOwnFolder(dirname(this.#file));
    const draft = `${this.#file}.${randomBytes(6).toString("hex")}`;
    try {
      await writeFile(draft, `${line}\n`, { mode: 0o600, flag: "wx", flush: true });
      // Unlike a rename, a link never replaces the key that another process has just made.
      await link(draft, this.#file).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error;
      });
    } finally {
      await rm(draft, { force: true });
    }
  }

  #unusable(reason: string): SecretError {
    return new SecretError(
      `The key of ${this.#file} cannot be used: ${reason}. Unlock or restore it; or delete that file and set all secrets again.`,
    );
  }
}

async function closeToOthers(file: string): Promise<void> {
  const { mode } = await stat(file);
  // Windows keeps no such mode: there the folder's own rights decide.
  if (process.platform === "win32" || (mode & 0o077) === 0) return;
  await chmod(file, 0o600);
}
