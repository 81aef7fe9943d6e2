import type { SecretInfo, Store } from "../store/index.ts";
import { EncryptionKey, type Keyring, osKeyring, SecretError, ValueCipher } from "./encryption.ts";

/** Values that tools need and nobody may see. */
export interface Secrets {
  /** Replaces the value that is there. Resolves when it is safely written. */
  set(name: string, value: string): Promise<void>;
  /** Like `set`, but only while the value that is there is `before`. Says whether it was. */
  replace(name: string, value: string, before: string): Promise<boolean>;
  /** Throws `SecretError` for a value that this workspace's key did not encrypt. */
  get(name: string): Promise<string | undefined>;
  /** Names and times, by name; never a value. Needs no key. */
  list(): Promise<SecretInfo[]>;
  /** Says whether there was such a secret. Needs no key. Given a value, only while it is that one. */
  remove(name: string, value?: string): Promise<boolean>;
  /** Reads what was set elsewhere since, so that it is masked here too. */
  refresh(): Promise<void>;
  /** A value that is part of this secret, or was had for it: it is masked like the secret from now on. */
  learn(name: string, value: string): void;
  /**
   * Values that are kept elsewhere, such as in a file, and are masked like secrets while their owner has them: they take
   * the place of those that the owner held before, and none end it.
   */
  hold(owner: string, values: Iterable<string>): void;
  /**
   * Every value known here, for masking: those of the opening, the last of each that were set, read or learnt, and those
   * that are held.
   */
  values(): Iterable<string>;
  /** Is called whenever there are other values. */
  onChange(listener: () => void): void;
  /** What could not be read at the opening: the reason by name. */
  readonly unreadable: ReadonlyMap<string, string>;
}

export interface SecretsOptions {
  /** The workspace's `.toolrack`, where the key lies beside the store. */
  readonly directory: string;
  readonly store: Pick<Store, "secrets">;
  /** That of the operating system when not given. */
  readonly keyring?: () => Promise<Keyring | undefined>;
}

/** Alone, or behind the name of the only tool that is given it: `weather/API_KEY`. */
const validName = /^(?:[A-Za-z0-9_-]{1,64}\/)?[A-Za-z_][A-Za-z0-9_.-]{0,99}$/;
const LONGEST_VALUE = 64 * 1024;
/** Of one secret, those that are masked: the value of now, its parts, and those of some time before. */
const MOST_VALUES = 16;

/** Opens the secrets of a workspace. A secret that cannot be read does not keep the others from being used. */
export async function openSecrets(options: SecretsOptions): Promise<Secrets> {
  const { directory, keyring = osKeyring } = options;
  const secrets = new StoredSecrets(options.store.secrets, new EncryptionKey(directory, keyring));
  await secrets.refresh();
  return secrets;
}

class StoredSecrets implements Secrets {
  readonly unreadable = new Map<string, string>();
  readonly #store: Store["secrets"];
  readonly #key: EncryptionKey;
  /** When what was read last had been set. */
  readonly #seen = new Map<string, number>();
  /** By name, the latest last. Also values that were replaced: calls under way may still show them. */
  readonly #known = new Map<string, Set<string>>();
  readonly #held = new Map<string, readonly string[]>();
  readonly #listeners: (() => void)[] = [];
  #values: readonly string[] = [];

  constructor(store: Store["secrets"], key: EncryptionKey) {
    this.#store = store;
    this.#key = key;
  }

  async refresh(): Promise<void> {
    for (const { name, updatedAt } of await this.#store.list()) {
      if (this.#seen.get(name) === updatedAt) continue;
      this.#seen.set(name, updatedAt);
      try {
        await this.get(name);
      } catch (thrown) {
        if (!(thrown instanceof SecretError)) throw thrown;
        this.unreadable.set(name, thrown.message);
        continue;
      }
      this.unreadable.delete(name);
    }
  }

  async set(name: string, value: string): Promise<void> {
    await this.#store.set(name, await this.#encrypt(name, value));
    this.unreadable.delete(name);
  }

  async replace(name: string, value: string, before: string): Promise<boolean> {
    const there = await this.#find(name, before);
    return there !== undefined && this.#store.replace(name, await this.#encrypt(name, value), there);
  }

  async #encrypt(name: string, value: string): Promise<string> {
    if (!validName.test(name)) {
      throw new SecretError(
        `"${name}" cannot be the name of a secret. Use letters, digits, _ . and -, at most 100, not beginning with a digit.`,
      );
    }
    if (value === "") throw new SecretError(`The value of the secret "${name}" is empty.`);
    if (value.length > LONGEST_VALUE) {
      throw new SecretError(`The value of the secret "${name}" is longer than ${LONGEST_VALUE} characters.`);
    }
    const cipher = new ValueCipher(await this.#key.ensure());
    this.learn(name, value);
    return cipher.encrypt(name, value);
  }

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
    const value = new ValueCipher(key).decrypt(name, encrypted);
    this.learn(name, value);
    return value;
  }

  list(): Promise<SecretInfo[]> {
    return this.#store.list();
  }

  async remove(name: string, value?: string): Promise<boolean> {
    const there = value === undefined ? undefined : await this.#find(name, value);
    if (value !== undefined && there === undefined) return false;
    const isRemoved = await this.#store.remove(name, there);
    this.unreadable.delete(name);
    return isRemoved;
  }

  /** What the store has for the secret, where its value is this one. */
  async #find(name: string, value: string): Promise<string | undefined> {
    const encrypted = await this.#store.get(name);
    return encrypted !== undefined && (await this.#decrypt(name, encrypted)) === value
      ? encrypted
      : undefined;
  }

  learn(name: string, value: string): void {
    const values = this.#known.get(name) ?? new Set();
    if (values.has(value) && [...values].at(-1) === value) return;
    values.delete(value);
    values.add(value);
    // A secret that is renewed every hour must not make masking dearer for ever.
    if (values.size > MOST_VALUES) values.delete([...values][0]!);
    this.#known.set(name, values);
    this.#collect();
  }

  hold(owner: string, values: Iterable<string>): void {
    const held = [...new Set(values)];
    if (held.length === 0) this.#held.delete(owner);
    else this.#held.set(owner, held);
    this.#collect();
  }

  values(): Iterable<string> {
    return this.#values;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  #collect(): void {
    this.#values = [...this.#known.values(), ...this.#held.values()].flatMap((some) => [...some]);
    for (const listener of this.#listeners) listener();
  }
}

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

/** Where secret values come from. Asked often, so it should not do more than hand out what it has. */
export type SecretSource = () => Iterable<string>;

/** All secret values that a process knows, in every form in which they may be written. */
export class MaskedValues {
  readonly #sources: readonly SecretSource[];
  #plain: readonly string[] = [];
  #forms: readonly string[] = Object.freeze([]);

  constructor(...sources: readonly SecretSource[]) {
    this.#sources = sources;
  }

  /** The same array until a value comes or goes. */
  readonly list = (): readonly string[] => {
    if (this.#isSame()) return this.#forms;
    this.#plain = this.#sources.flatMap((source) => [...source()]);
    this.#forms = Object.freeze([...new Set(this.#plain.flatMap(writtenForms))]);
    return this.#forms;
  };

  /** Looked at where they are: this is asked several times in every call, and nearly always answered with yes. */
  #isSame(): boolean {
    let at = 0;
    for (const source of this.#sources) {
      for (const value of source()) if (value !== this.#plain[at++]) return false;
    }
    return at === this.#plain.length;
  }
}

/** Shorter pieces of base64 stand in texts by chance. */
const SHORTEST_PIECE = 8;

/**
 * A secret as it may be written where it is not written plainly. These are the forms that are masked, in any mix of
 * upper and lower case, and docs/guides/server.md promises them; a new one is added in both places.
 */
export function writtenForms(value: string): string[] {
  // A value that was piped in often ends with a line break, which most programs cut off.
  const texts = new Set([value, value.trim()]);
  const forms = new Set<string>();
  for (const text of texts) {
    for (const form of [text, ...inUrl(text), ...inJson(text), inHtml(text), ...inBytes(text)])
      forms.add(form);
  }
  return [...forms];
}

/** As a part, as browsers and Python leave less or more of it, as a whole address, and as a form sends it. */
function inUrl(text: string): string[] {
  // Half of a character has no form in a URL.
  const whole = text.toWellFormed();
  const part = encodeURIComponent(whole);
  const strict = part.replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
  const form = new URLSearchParams({ x: whole }).toString().slice(2);
  return [part, strict, strict.replaceAll("%2F", "/"), encodeURI(whole), form];
}

/** Inside a JSON text, also where that stands in another one; as Python, PHP and Go write it, and as Node prints a value. */
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
  const names: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (sign) => names[sign] ?? sign);
}

/** In hexadecimal digits, and in base64, alone or as a part of something longer. */
function inBytes(text: string): string[] {
  const pieces = piecesInBase64(text);
  const urlSafe = pieces.map((piece) => piece.replaceAll("+", "-").replaceAll("/", "_"));
  return [Buffer.from(text).toString("hex"), ...pieces, ...urlSafe];
}

/** What is the same in base64 whatever stands before and after: it depends on how many bytes stand before. */
function piecesInBase64(value: string): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]);
    const whole = bytes.length - (bytes.length % 3);
    const piece = bytes
      .subarray(0, whole)
      .toString("base64")
      .slice(before === 0 ? 0 : 4);
    return piece.length < SHORTEST_PIECE ? [] : [piece];
  });
}
