import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { makeOwnFile, readOwnFile } from "../helpers/index.ts";
import { readFleetVariable } from "../helpers/private-files.ts";
import type { Store } from "../store/index.ts";

/** A secret cannot be stored or read. The message is for people and never holds any part of the value. */
export class SecretError extends Error {
  override readonly name = "SecretError";
}

const form = /^(file|keyring):([A-Za-z0-9_-]+)$/;

/**
 * The key that secrets are encrypted with. All nodes of a fleet are given the same one by `TOOLRACK_KEY`. Otherwise the
 * file `key` says where it lies: `keyring:<account>`, or `file:<key>` where there is no keyring. So a keyring that is only locked is never mistaken for one without a key.
 */
export class EncryptionKey {
  readonly #file: string;
  readonly #keyring: () => Promise<Keyring | undefined>;

  constructor(directory: string, keyring: () => Promise<Keyring | undefined>) {
    this.#file = join(directory, "key");
    this.#keyring = keyring;
  }

  /** Returns undefined when no key has been made yet. Throws `SecretError` when the key cannot be read. */
  async read(): Promise<Buffer | undefined> {
    const given = await readFleetVariable("TOOLRACK_KEY");
    if (given !== undefined) return parseGivenKey(given);
    const text = await readOwnFile(this.#file);
    if (text === undefined) return undefined;
    const [, place, rest] = form.exec(text) ?? [];
    if (place === undefined || rest === undefined) throw this.#unusable("it is damaged");
    const key = Buffer.from(place === "file" ? rest : await this.#readFromKeyring(rest), "base64url");
    if (key.length !== KEY_BYTES) throw this.#unusable("it is damaged");
    return key;
  }

  /** Returns the key, and makes one first where there is none. Two processes that do so at once get the same key. */
  async ensure(): Promise<Buffer> {
    const existing = await this.read();
    if (existing !== undefined) return existing;
    await makeOwnFile(this.#file, `${await this.#store(randomBytes(KEY_BYTES).toString("base64url"))}\n`);
    const key = await this.read();
    if (key === undefined) throw this.#unusable("it vanished while it was being made");
    return key;
  }

  async #store(key: string): Promise<string> {
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

  async #readFromKeyring(account: string): Promise<string> {
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

  #unusable(reason: string): SecretError {
    return new SecretError(
      `The key of ${this.#file} cannot be used: ${reason}. Unlock or restore it; or delete that file and set all secrets again.`,
    );
  }
}

/** The variable may have what `openssl rand -base64 32` prints, or the content of another node's file `key`. */
function parseGivenKey(text: string): Buffer {
  const key = Buffer.from(text.replace(/^file:/, ""), "base64url");
  if (key.length === KEY_BYTES) return key;
  throw new SecretError(
    "TOOLRACK_KEY, or the file that TOOLRACK_KEY_FILE names, is no key: 32 bytes in base64 are. Make one with: openssl rand -base64 32",
  );
}

/**
 * Throws `SecretError` unless this node has the key of all others on the same database: it could neither use nor mask the
 * secrets that they set. The database keeps a value that shows whether a key is the same, and not what it is.
 */
export async function requireSharedKey(key: EncryptionKey, identity: Store["identity"]): Promise<void> {
  const [known, own] = [await identity.get("key"), await key.read()];
  if (known !== undefined && own === undefined) throw new SecretError(`This node has no key. ${ONE_KEY}`);
  const check = createHash("sha256")
    .update("toolrack key check")
    .update(own ?? (await key.ensure()))
    .digest("hex");
  if ((known ?? (await identity.agree("key", check))) !== check)
    throw new SecretError(`This node has another key than the database was first used with. ${ONE_KEY}`);
}

const ONE_KEY =
  "All nodes need the same key to use and to mask secrets: give each the variable TOOLRACK_KEY (or TOOLRACK_KEY_FILE), or copy the file .toolrack/key of the first node. If that key is lost, delete the row 'key' of the table identity and set all secrets again.";

/** Where the operating system keeps passwords. */
export interface Keyring {
  /** Rejects when the keyring is locked or not there. */
  read(account: string): Promise<string | undefined>;
  /** Rejects when the keyring did not store the password. */
  write(account: string, password: string): Promise<void>;
}

const SERVICE = "toolrack";

/** The keyring of the user, or nothing where its package is not installed or `TOOLRACK_KEYRING` is `off`. */
export async function osKeyring(): Promise<Keyring | undefined> {
  if (process.env.TOOLRACK_KEYRING === "off") return undefined;
  // An optional dependency: it has no build for every platform.
  const native = await import("@napi-rs/keyring").catch(() => undefined);
  if (native === undefined) return undefined;
  // Linux would otherwise fall back to the kernel's keyring, which forgets everything at the next boot.
  const open = (account: string) =>
    new native.AsyncEntry(SERVICE, account, { linux: { store: "secret-service" } });
  return {
    read: async (account) => (await open(account).getPassword()) ?? undefined,
    write: async (account, password) => {
      const entry = open(account);
      await entry.setPassword(password);
      if ((await entry.getPassword()) !== password) throw new Error("The keyring did not keep the key.");
    },
  };
}

const ALGORITHM = "aes-256-gcm";
const VERSION = "v1";
/** The length that GCM expects. A nonce is random: one key encrypts far too few values for two nonces to be alike. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

const KEY_BYTES = 32;

/**
 * Encrypts a value as `v1.<key's id>.<nonce>.<tag>.<text>`. The name is authenticated with the value, so that somebody
 * who can write to the database cannot give one secret the value of another.
 */
export function encrypt(key: Buffer, name: string, value: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(name));
  const text = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
  const parts = [nonce, cipher.getAuthTag(), text].map((part) => part.toString("base64url"));
  return [VERSION, keyIdOf(key), ...parts].join(".");
}

/** Throws `SecretError` for anything that this key did not encrypt under this name. */
export function decrypt(key: Buffer, name: string, encrypted: string): string {
  const [version, keyId, ...parts] = encrypted.split(".");
  if (version === VERSION && keyId !== keyIdOf(key)) {
    throw new SecretError(
      `The secret "${name}" was encrypted with another key than this workspace has now. Bring that key back, or set the secret again.`,
    );
  }
  try {
    const [nonce, tag, text] = parts.map((part) => Buffer.from(part, "base64url"));
    if (version !== VERSION) throw new Error("unknown version");
    const decipher = createDecipheriv(ALGORITHM, key, nonce!, { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(name))
      .setAuthTag(tag!);
    return Buffer.concat([decipher.update(text!), decipher.final()]).toString("utf8");
  } catch {
    throw new SecretError(
      `The stored value of the secret "${name}" was changed since it was set, so it is not used. Set it again.`,
    );
  }
}

export function keyIdOf(key: Buffer): string {
  return createHash("sha256").update("toolrack key id").update(key).digest("hex").slice(0, 12);
}
