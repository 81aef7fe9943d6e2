import { createHash } from "node:crypto";
import type {
  OAuthMetadata,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { SecretError, type Secrets } from "../../../access/index.ts";
import { isLocal, type OAuthEntry, type ServerEntry } from "../config/entry.ts";
import { isSecretName, isSecretParameter } from "../config/hidden.ts";
import { expand, type Surroundings } from "../config/resolve-entry.ts";
import { ConfigurationError } from "../failures.ts";

/** What a sign-in has left: who the rack is for the server, and what it was given. */
export interface KeptSignIn {
  /** The address of the MCP server. Another server under the same key is never sent what this one was. */
  readonly server: string;
  /** The client that the tokens were given to. Undefined when it is the one that the entry names. */
  readonly client?: StoredOAuthClientInformation | undefined;
  /** Where tokens are renewed and taken back. */
  readonly authority: {
    readonly url: string;
    readonly metadata?: OAuthMetadata | undefined;
    /** What the tokens are for, in the words of the MCP server. */
    readonly resource?: string | undefined;
  };
  readonly tokens: StoredOAuthTokens;
  /** The scope that was asked for; an authorization server that grants just that need not say so. */
  readonly asked?: string | undefined;
  /** The part of it that the server asked for only when something was called that needs it. */
  readonly wanted?: string | undefined;
  /** Milliseconds since the epoch. Undefined when the server did not say. */
  readonly expiresAt?: number | undefined;
}

export type VaultSecrets = Pick<Secrets, "get" | "set" | "replace" | "remove" | "learn">;

const LONGEST_NAME = 100;

/** Keeps the sign-in of one server among the secrets, encrypted like them. */
export class SignInVault {
  readonly #name: string;
  readonly #secrets: VaultSecrets;

  constructor(key: string, secrets: VaultSecrets) {
    const plain = `mcp-oauth.${key}`;
    // A key may have what the name of a secret cannot.
    const isName = plain.length <= LONGEST_NAME && /^[\w.-]+$/.test(plain);
    const hash = createHash("sha256").update(key).digest("hex").slice(0, 32);
    this.#name = isName ? plain : `mcp-oauth.${hash}`;
    this.#secrets = secrets;
  }

  /** Undefined when there is none for this server. Throws `SecretError` for one that cannot be read. */
  async read(server: string): Promise<KeptSignIn | undefined> {
    const text = await this.#secrets.get(this.#name);
    if (text === undefined) return undefined;
    const kept = this.#parse(text);
    return kept.server === server ? kept : undefined;
  }

  async write(kept: KeptSignIn): Promise<void> {
    this.#learnAll(kept);
    await this.#secrets.set(this.#name, JSON.stringify(kept));
  }

  /**
   * Only while `before` is what is kept, and says whether it was: another process may have signed out, or been given new
   * tokens for it.
   */
  async replace(kept: KeptSignIn, before: KeptSignIn): Promise<boolean> {
    this.#learnAll(kept);
    const text = await this.#find(before);
    return text !== undefined && this.#secrets.replace(this.#name, JSON.stringify(kept), text);
  }

  /** Given a sign-in, only while that is what is kept, as above. Says whether there was one. */
  async clear(only?: KeptSignIn): Promise<boolean> {
    if (only === undefined) return this.#secrets.remove(this.#name);
    const text = await this.#find(only);
    return text !== undefined && this.#secrets.remove(this.#name, text);
  }

  /**
   * Removes what is kept, whatever it is, and answers it where it is a sign-in at this server. Another process may be given
   * new tokens meanwhile: what is answered is what was removed.
   */
  async take(server: string | undefined): Promise<KeptSignIn | undefined> {
    try {
      for (;;) {
        const text = await this.#secrets.get(this.#name);
        if (text === undefined) return undefined;
        if (!(await this.#secrets.remove(this.#name, text))) continue;
        const kept = this.#parse(text);
        return kept.server === server ? kept : undefined;
      }
    } catch (thrown) {
      // It is no sign-in, or this workspace's key did not encrypt it.
      if (thrown instanceof SecretError) await this.#secrets.remove(this.#name);
      else if (!(thrown instanceof SyntaxError)) throw thrown;
      return undefined;
    }
  }

  /** From now on a value is masked wherever it would show. */
  learn(...values: readonly (string | undefined)[]): void {
    for (const value of values)
      if (value !== undefined && value !== "") this.#secrets.learn(this.#name, value);
  }

  #parse(text: string): KeptSignIn {
    // What is read is what `write` wrote: the secrets check that nobody changed it.
    const kept = JSON.parse(text) as KeptSignIn;
    this.#learnAll(kept);
    return kept;
  }

  /** The text of this sign-in, where it is the one that is kept. */
  async #find({ tokens }: KeptSignIn): Promise<string | undefined> {
    const text = await this.#secrets.get(this.#name);
    if (text === undefined) return undefined;
    return this.#parse(text).tokens.access_token === tokens.access_token ? text : undefined;
  }

  #learnAll({ tokens, client }: KeptSignIn): void {
    this.learn(tokens.access_token, tokens.refresh_token, tokens.id_token, client?.client_secret);
  }
}

/**
 * Whether the rack may sign in at a server: one that is sent credentials of its entry has what it needs. Where both are
 * wanted, such as the key of a gateway and the tokens of the server behind it, the entry says so with `toolrack.oauth`.
 */
export function canSignIn(entry: ServerEntry): boolean {
  if (isLocal(entry) || sendsAuthorization(entry)) return false;
  return entry.toolrack?.oauth !== undefined || !sendsKey(entry);
}

/** The header that tokens would be sent in is taken. */
function sendsAuthorization({ url = "", headers = {} }: ServerEntry): boolean {
  const isNamed = /^[^/?#]*:\/\/[^/?#]*@/.test(url);
  return isNamed || Object.keys(headers).some((name) => /^authorization$/i.test(name));
}

/** Only what is certainly a credential: the number of a tenant may look like one, and beside it people sign in. */
function sendsKey({ url = "", headers = {} }: ServerEntry): boolean {
  const [, query = ""] = /\?([^#]*)/.exec(url) ?? [];
  return (
    isSecret(url) ||
    [...new URLSearchParams(query).keys()].some(isSecretParameter) ||
    Object.entries(headers).some(([name, value]) => isSecretName(name) || isSecret(value))
  );
}

function isSecret(text: string): boolean {
  return text.includes("${secret:");
}

/** The MCP server that is signed in at. */
export interface SignInTarget {
  readonly url: URL;
  /** What its entry sends with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** What its entry says about signing in, with its variables replaced. */
  readonly settings: OAuthEntry;
  readonly clientName: string;
}

/** Throws a `ConfigurationError` that names the key whose variable has no value, or whose value cannot be used. */
export async function resolveOAuth(
  given: OAuthEntry,
  where: string,
  surroundings: Surroundings,
): Promise<OAuthEntry> {
  const entries = Object.entries(given).map(
    async ([key, text]) => [key, await expand(text, `${where}.toolrack.oauth.${key}`, surroundings)] as const,
  );
  const settings: OAuthEntry = Object.fromEntries(await Promise.all(entries));
  const { clientMetadataUrl } = settings;
  if (clientMetadataUrl !== undefined && !isMetadataUrl(clientMetadataUrl)) {
    throw new ConfigurationError(
      `${where}.toolrack.oauth.clientMetadataUrl must be the address of a document: it begins with https://, has a path, and has neither credentials nor a fragment.`,
    );
  }
  return settings;
}

/** Authorization servers compare it letter by letter, so it is sent as it is written. */
function isMetadataUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null) return false;
  const { protocol, pathname, username, password } = url;
  return protocol === "https:" && pathname !== "/" && username + password === "" && !text.includes("#");
}

/** The client that the entry names, if it names one. */
export function configuredClient(settings: OAuthEntry): StoredOAuthClientInformation | undefined {
  const { clientId, clientSecret, issuer } = settings;
  return clientId === undefined ? undefined : { client_id: clientId, client_secret: clientSecret, issuer };
}

/** All scopes of these lists, each once, as OAuth writes them; undefined when there are none. */
export function joinScopes(...lists: readonly (string | undefined)[]): string | undefined {
  const scopes = new Set(lists.flatMap((list) => list?.split(/\s+/) ?? []).filter((scope) => scope !== ""));
  return scopes.size === 0 ? undefined : [...scopes].join(" ");
}
