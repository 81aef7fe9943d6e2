import { createHash } from "node:crypto";
import type { Store, ValueInfo } from "../store/index.ts";
import {
  decrypt,
  EncryptionKey,
  encrypt,
  type Keyring,
  keyIdOf,
  osKeyring,
  requireSharedKey,
  SecretError,
} from "./encryption.ts";

export interface SecretsOptions {
  /** The workspace's `.toolrack`, where the key lies beside the store. */
  readonly directory: string;
  readonly store: Pick<Store, "secrets" | "engine" | "identity">;
  /** Default: the keyring of the operating system. */
  readonly keyring?: () => Promise<Keyring | undefined>;
}

/**
 * A plain name, or the name of the only tool that gets the secret, a slash and a plain name:
 * `weather/API_KEY`.
 */
const validName = /^(?:[A-Za-z0-9_-]{1,64}\/)?[A-Za-z_][A-Za-z0-9_.-]{0,99}$/;
const LONGEST_VALUE = 64 * 1024;
/** Shorter values occur in many texts by chance, which a mask would spoil. */
const SHORTEST_VALUE = 8;
/** How many values of one secret are masked: the current one, its parts, and some earlier ones. */
const MOST_VALUES = 16;

/** Opens the secrets of a workspace. A secret that cannot be read does not keep the others from being used. */
export async function openSecrets({
  directory,
  store,
  keyring = osKeyring,
}: SecretsOptions): Promise<Secrets> {
  const key = new EncryptionKey(directory, keyring);
  // A file that is the store has its key beside it. A database server may have nodes with other folders.
  if (store.engine !== "sqlite") await requireSharedKey(key, store.identity);
  const secrets = new Secrets(store.secrets, key);
  await secrets.refresh();
  return secrets;
}

export interface Sealing {
  readonly keyId: string;
  readonly seal: (text: string) => string;
  readonly unseal: (text: string) => string;
}

/** Values that tools need and nobody may see. */
export class Secrets {
  readonly #store: Store["secrets"];
  readonly #key: EncryptionKey;
  readonly #unreadable = new Map<string, string>();
  /**
   * Names of secrets that are shorter than the rack accepts today. They were stored before short values were
   * refused.
   */
  readonly #short = new Set<string>();
  /** For each secret, by name: its encrypted text, as it was last read. */
  readonly #encrypted = new Map<string, string>();
  /** The secrets that could be read, by name, as they were last read. */
  readonly #current = new Map<string, string>();
  /**
   * For each secret, by name: the values to mask, the latest last. Replaced values stay, because calls under
   * way may still show them.
   */
  readonly #known = new Map<string, Set<string>>();
  readonly #maskedFor = new Map<string, readonly string[]>();
  readonly #listeners: (() => void)[] = [];
  #values: readonly string[] = [];

  constructor(store: Store["secrets"], key: EncryptionKey) {
    this.#store = store;
    this.#key = key;
  }

  /** What an operator should know and do: about secrets that cannot be read, and about those that are too short. */
  problems(): string[] {
    const short = [...this.#short].map((name) => {
      const words = name.replace("/", " ");
      return `The secret "${name}" is shorter than ${SHORTEST_VALUE} characters, so results are masked where it stands by chance. If nobody has to hide it, make it a setting: toolrack secrets remove ${words} && toolrack settings set ${words}`;
    });
    return [...this.#unreadable.values(), ...short];
  }

  /** By name, why each secret that could not be read is unreadable. */
  get unreadable(): ReadonlyMap<string, string> {
    return this.#unreadable;
  }

  /**
   * Reads the secrets that other processes have set since the last time, so that they are masked here too. Returns the
   * names of all.
   */
  async refresh(): Promise<string[]> {
    const entries = await this.#store.entries();
    const names = entries.map(({ name }) => name);
    for (const name of this.#encrypted.keys()) if (!names.includes(name)) this.#forget(name);
    for (const { name, value: encrypted } of entries) {
      if (this.#encrypted.get(name) === encrypted) continue;
      this.#forget(name);
      this.#encrypted.set(name, encrypted);
      try {
        const value = await this.#decrypt(name, encrypted);
        this.#current.set(name, value);
        this.#unreadable.delete(name);
        if (isShort(value)) this.#short.add(name);
        else this.#short.delete(name);
      } catch (thrown) {
        if (!(thrown instanceof SecretError)) throw thrown;
        this.#unreadable.set(name, thrown.message);
      }
    }
    return names;
  }

  #forget(name: string): void {
    this.#encrypted.delete(name);
    this.#current.delete(name);
    this.#unreadable.delete(name);
    this.#short.delete(name);
  }

  /** The value as `refresh` last read it. Throws `SecretError` for one that could not be read. */
  current(name: string): string | undefined {
    const problem = this.#unreadable.get(name);
    if (problem !== undefined) throw new SecretError(problem);
    return this.#current.get(name);
  }

  /** Replaces the current value. Resolves when the new one is safely written. */
  async set(name: string, value: string): Promise<void> {
    await this.#store.set(name, await this.#encrypt(name, value));
    this.#forget(name);
  }

  /** Like `set`, but only when the current value is `before`. Returns whether the value was replaced. */
  async replace(name: string, value: string, before: string): Promise<boolean> {
    const there = await this.#find(name, before);
    return there !== undefined && this.#store.replace(name, await this.#encrypt(name, value), there);
  }

  async #encrypt(name: string, value: string): Promise<string> {
    if (!isValueName(name)) {
      throw new SecretError(
        `"${name}" cannot be the name of a secret. Use letters, digits, _ . and -, at most 100, not beginning with a digit.`,
      );
    }
    if (value === "") throw new SecretError(`The value of the secret "${name}" is empty.`);
    if (isShort(value)) {
      throw new SecretError(
        `The value of the secret "${name}" is shorter than ${SHORTEST_VALUE} characters. A secret is masked wherever its value shows, and one this short shows in many texts by chance. If it need not be hidden, set it as a setting: toolrack settings set ${name.replace("/", " ")}`,
      );
    }
    if (value.length > LONGEST_VALUE) {
      throw new SecretError(`The value of the secret "${name}" is longer than ${LONGEST_VALUE} characters.`);
    }
    const key = await this.#key.ensure();
    this.learn(name, value);
    return encrypt(key, name, value);
  }

  /**
   * Functions that encrypt and decrypt texts which other processes of this rack may read and nobody else. `keyId` names the
   * key. `unseal` throws `SecretError` for anything that the key did not encrypt for this purpose.
   */
  async sealing(purpose: string): Promise<Sealing> {
    const key = await this.#key.ensure();
    return {
      keyId: keyIdOf(key),
      seal: (text) => encrypt(key, purpose, text),
      unseal: (text) => decrypt(key, purpose, text),
    };
  }

  /** A key that all nodes on one database have, for what they tell each other. */
  async sharedKey(): Promise<Buffer> {
    return createHash("sha256")
      .update("toolrack between nodes")
      .update(await this.#key.ensure())
      .digest();
  }

  /** Throws `SecretError` for a value that this workspace's key did not encrypt. */
  async get(name: string): Promise<string | undefined> {
    const encrypted = await this.#store.get(name);
    return encrypted === undefined ? undefined : this.#decrypt(name, encrypted);
  }

  async #decrypt(name: string, encrypted: string): Promise<string> {
    const key = await this.#key.read();
    if (key === undefined) {
      throw new SecretError(
        `The secret "${name}" cannot be read: the key that it was encrypted with is gone. Bring the file "key" back, or set the secret again.`,
      );
    }
    const value = decrypt(key, name, encrypted);
    this.learn(name, value);
    return value;
  }

  /** Returns names and times, sorted by name; never a value. Needs no encryption key. */
  list(): Promise<ValueInfo[]> {
    return this.#store.list();
  }

  /**
   * Returns whether the secret was removed. With `value`, the secret is removed only when it has that value;
   * this check needs the encryption key.
   */
  async remove(name: string, value?: string): Promise<boolean> {
    const there = value === undefined ? undefined : await this.#find(name, value);
    if (value !== undefined && there === undefined) return false;
    const isRemoved = await this.#store.remove(name, there);
    this.#forget(name);
    return isRemoved;
  }

  /** The encrypted text in the store, if the secret has this value. */
  async #find(name: string, value: string): Promise<string | undefined> {
    const encrypted = await this.#store.get(name);
    const isFound = encrypted !== undefined && (await this.#decrypt(name, encrypted)) === value;
    return isFound ? encrypted : undefined;
  }

  /**
   * Masks a value together with this secret from now on: the secret itself, a part of it, or a value that was
   * obtained with it.
   */
  learn(name: string, value: string): void {
    const values = this.#known.get(name) ?? new Set();
    if (values.has(value) && [...values].at(-1) === value) return;
    values.delete(value);
    values.add(value);
    // Without a limit, a secret that is renewed every hour would make masking slower and slower.
    if (values.size > MOST_VALUES) values.delete([...values][0]!);
    this.#known.set(name, values);
    this.#collect();
  }

  /**
   * Masks values that `owner` stores elsewhere. They replace the values that this owner gave before; an empty
   * list removes them.
   */
  maskFor(owner: string, values: Iterable<string>): void {
    const list = [...new Set(values)];
    if (list.length === 0) this.#maskedFor.delete(owner);
    else this.#maskedFor.set(owner, list);
    this.#collect();
  }

  /**
   * All values to mask: the latest values of every secret that were read, set or passed to `learn`, and the
   * values that were passed to `maskFor`.
   */
  values(): Iterable<string> {
    return this.#values;
  }

  /** Calls the listener whenever the values to mask may have changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  #collect(): void {
    this.#values = [...this.#known.values(), ...this.#maskedFor.values()].flatMap((some) => [...some]);
    for (const listener of this.#listeners) listener();
  }
}

function isShort(value: string): boolean {
  return value.trim().length < SHORTEST_VALUE;
}

/** Whether a secret or a setting may have this name. */
export function isValueName(name: string): boolean {
  return validName.test(name);
}

/** The name under which a secret or a setting of a single tool is stored. */
export function toolSecretName(tool: string, name: string): string {
  return `${tool}/${name}`;
}

/** All secret values that a process knows, in every form in which they may be written. */
export class MaskedValues {
  readonly #sources: (() => Iterable<string>)[];
  readonly #followed = new Set<Secrets>();
  #plain: readonly string[] = [];
  /** Frozen, and the same array until a value is added or removed. Read several times in every call. */
  list: readonly string[] = Object.freeze([]);

  constructor(...sources: (() => Iterable<string>)[]) {
    this.#sources = sources;
    this.refresh();
  }

  /** Adds the values of these secrets to the list, and those that the secrets get later. */
  follow(secrets: Secrets): void {
    if (this.#followed.has(secrets)) return;
    this.#followed.add(secrets);
    this.#sources.push(() => secrets.values());
    secrets.onChange(() => this.refresh());
    this.refresh();
  }

  /**
   * Reads all sources again and returns the list. Must be called before `list` is read when a source does not
   * report that its values changed.
   */
  refresh(): readonly string[] {
    const plain = this.#sources.flatMap((source) => [...source()]);
    if (plain.length === this.#plain.length && plain.every((value, at) => value === this.#plain[at]))
      return this.list;
    this.#plain = plain;
    this.list = Object.freeze([...new Set(plain.flatMap(writtenForms))]);
    return this.list;
  }
}

/** Shorter pieces of base64 occur in texts by chance. */
const SHORTEST_PIECE = 8;

/**
 * The forms in which a secret may be written. These forms are masked, in any mix of upper and lower case.
 * docs/guides/server.md promises them, so a new form is added in both places.
 */
export function writtenForms(value: string): string[] {
  // A value that was piped in often ends with a line break, which most programs cut off.
  const texts = [...new Set([value, value.trim()])];
  const forms = texts.flatMap((text) => [
    text,
    ...inUrl(text),
    ...inJson(text),
    inHtml(text),
    ...inBytes(text),
  ]);
  return [...new Set(forms)];
}

/**
 * The text as part of a URL with more or fewer escapes (browsers, Python), as a whole URL, and as a form
 * sends it.
 */
function inUrl(text: string): string[] {
  // `encodeURIComponent` throws for half of a surrogate pair.
  const whole = text.toWellFormed();
  const part = encodeURIComponent(whole);
  const strict = part.replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
  const form = new URLSearchParams({ x: whole }).toString().slice(2);
  return [part, strict, strict.replaceAll("%2F", "/"), encodeURI(whole), form];
}

/**
 * The text inside a JSON text, also inside a JSON text that is nested in another; as Python, PHP and Go
 * escape it, and as Node prints a value.
 */
function inJson(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const escaped = (signs: RegExp) =>
    json.replace(signs, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [
    json,
    JSON.stringify(json).slice(1, -1),
    escaped(/[^\0-\x7f]/g),
    escaped(/[<>&\u2028\u2029]/g),
    json.replaceAll("/", "\\/"),
    json.replaceAll('\\"', '"'),
  ];
}

function inHtml(text: string): string {
  const names = new Map(Object.entries({ "&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "#39" }));
  return text.replace(/[&<>"']/g, (sign) => `&${names.get(sign)};`);
}

/** The text in hexadecimal digits, and in base64, alone or as a part of something longer. */
function inBytes(text: string): string[] {
  const pieces = piecesInBase64(text);
  const urlSafe = pieces.map((piece) => piece.replaceAll("+", "-").replaceAll("/", "_"));
  return [Buffer.from(text).toString("hex"), ...pieces, ...urlSafe];
}

/**
 * The part of the value's base64 text that does not depend on the bytes before and after the value, for each
 * offset modulo 3.
 */
function piecesInBase64(value: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]);
    const whole = bytes.subarray(0, bytes.length - (bytes.length % 3)).toString("base64");
    const piece = whole.slice(before === 0 ? 0 : 4);
    return piece.length < SHORTEST_PIECE ? [] : [piece];
  });
}
