import { createHash } from "node:crypto";
import type {
  OAuthMetadata,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { isSecretName } from "@toolrack/core/internal";
import { SecretError, type Secrets } from "../../../access/index.ts";
import { tokenSecretName } from "../../../store/index.ts";
import { personAuthOf } from "../config/api-entry.ts";
import { isLocal, type OAuthEntry, type ServerEntry } from "../config/entry.ts";
import { isSecretParameter } from "../config/secret-values.ts";

/** A stored sign-in: the rack's client at the authorization server, and its tokens. */
export interface KeptSignIn {
  /** The address of the MCP server, or the origin of the API. If the entry names another address later, the tokens are not sent there. */
  readonly server: string;
  /** The client that the tokens belong to. Undefined when it is the client that the entry names. */
  readonly client?: StoredOAuthClientInformation | undefined;
  /**
   * The authorization server that renews and revokes the tokens. `resource`: what the tokens give access to, as
   * the MCP server names it.
   */
  readonly authority: {
    readonly url: string;
    readonly metadata?: OAuthMetadata | undefined;
    readonly resource?: string | undefined;
  };
  readonly tokens: StoredOAuthTokens;
  /** The requested scope. An authorization server that grants exactly this need not repeat it. */
  readonly asked?: string | undefined;
  /** The part of the scope that the MCP server did not ask for at first, but only when a call needed it. */
  readonly wanted?: string | undefined;
  /**
   * When the access token ends, in milliseconds since the epoch. Undefined when the authorization server did not say.
   */
  readonly expiresAt?: number | undefined;
}

export type VaultSecrets = Pick<Secrets, "get" | "set" | "replace" | "remove" | "learn">;

const LONGEST_NAME = 100;

/** Stores a sign-in at one server among the secrets, encrypted. */
export class SignInVault {
  /** The name of the secret. */
  readonly name: string;
  readonly #secrets: VaultSecrets;

  /** `owner`: the id of the token whose sign-in it is. Undefined: all callers share it. */
  constructor(key: string, secrets: VaultSecrets, owner?: string) {
    const prefix = owner === undefined ? "mcp-oauth." : tokenSecretName(owner, "mcp-oauth.");
    const plain = `${prefix}${key}`;
    // A key may have characters that the name of a secret cannot have.
    const isName = plain.length <= LONGEST_NAME && /^[\w.-]+$/.test(plain);
    const hash = createHash("sha256").update(key).digest("hex").slice(0, 32);
    this.name = isName ? plain : `${prefix}${hash}`;
    this.#secrets = secrets;
  }

  /** Undefined when there is no sign-in for this address. Throws `SecretError` when it cannot be read. */
  async read(server: string): Promise<KeptSignIn | undefined> {
    const text = await this.#secrets.get(this.name);
    return text === undefined ? undefined : this.#parse(text, server);
  }

  async write(kept: KeptSignIn): Promise<void> {
    this.#learnAll(kept);
    await this.#secrets.set(this.name, JSON.stringify(kept));
  }

  /** Replaces the sign-in, or returns false if another process has signed out or renewed the tokens since `before`. */
  async replace(kept: KeptSignIn, before: KeptSignIn): Promise<boolean> {
    this.#learnAll(kept);
    const text = await this.#find(before);
    return text !== undefined && this.#secrets.replace(this.name, JSON.stringify(kept), text);
  }

  /**
   * Removes the sign-in. With `only`, removes it just if that is still the stored one. Returns whether
   * something was removed.
   */
  async clear(only?: KeptSignIn): Promise<boolean> {
    if (only === undefined) return this.#secrets.remove(this.name);
    const text = await this.#find(only);
    return text !== undefined && this.#secrets.remove(this.name, text);
  }

  /**
   * Removes the stored sign-in, and returns it if it is for this address. Returns exactly what was removed, even if
   * another process renews the tokens at the same time.
   */
  async take(server: string | undefined): Promise<KeptSignIn | undefined> {
    try {
      for (;;) {
        const text = await this.#secrets.get(this.name);
        if (text === undefined) return undefined;
        if (await this.#secrets.remove(this.name, text)) return this.#parse(text, server);
      }
    } catch (thrown) {
      // The stored value is no sign-in, or was encrypted with another key.
      if (thrown instanceof SecretError) await this.#secrets.remove(this.name);
      else if (!(thrown instanceof SyntaxError)) throw thrown;
      return undefined;
    }
  }

  /** Masks these values everywhere from now on. */
  learn(...values: readonly (string | undefined)[]): void {
    for (const value of values) if (value) this.#secrets.learn(this.name, value);
  }

  #parse(text: string, server: string | undefined): KeptSignIn | undefined {
    // Only `write` and `replace` write this text, and the encryption detects changes.
    const kept = JSON.parse(text) as KeptSignIn;
    this.#learnAll(kept);
    return kept.server === server ? kept : undefined;
  }

  /** Reads the stored text of this sign-in. Undefined when another sign-in has replaced it. */
  async #find({ server, tokens }: KeptSignIn): Promise<string | undefined> {
    const text = await this.#secrets.get(this.name);
    const kept = text === undefined ? undefined : this.#parse(text, server);
    return kept?.tokens.access_token === tokens.access_token ? text : undefined;
  }

  #learnAll({ tokens, client }: KeptSignIn): void {
    this.learn(tokens.access_token, tokens.refresh_token, tokens.id_token, client?.client_secret);
  }
}

/**
 * Whether the rack may sign in at a server. An entry with its own credentials needs no sign-in. If a server needs both,
 * such as the key of a gateway and tokens for the server behind it, the entry has `toolrack.oauth`.
 */
export function canSignIn(entry: ServerEntry): boolean {
  const { url = "", headers = {}, toolrack } = entry;
  // With a sign-in, the rack sends its token in the Authorization header, so the entry must not send another one.
  const isNamed = /^[^/?#]*:\/\/[^/?#]*@/.test(url);
  const sendsAuthorization = isNamed || Object.keys(headers).some((name) => /^authorization$/i.test(name));
  if (entry.api !== undefined) return personAuthOf(entry) !== undefined;
  if (isLocal(entry) || sendsAuthorization) return false;
  return toolrack?.oauth !== undefined || !sendsKey(url, headers);
}

/**
 * Whether the entry sends credentials of its own. Only unmistakable ones count: the id of a tenant may look
 * like a key, and people still have to sign in.
 */
function sendsKey(url: string, headers: Readonly<Record<string, string>>): boolean {
  const [, query = ""] = /\?([^#]*)/.exec(url) ?? [];
  const isSecret = (text: string) => /\$\{secret:|\{\{\s*caller:/.test(text);
  return (
    isSecret(url) ||
    [...new URLSearchParams(query).keys()].some(isSecretParameter) ||
    Object.entries(headers).some(([name, value]) => isSecretName(name) || isSecret(value))
  );
}

/** The MCP server or the API to sign in at. */
export interface SignInTarget {
  /** Of an API, its origin. */
  readonly url: URL;
  /** The headers of its entry. */
  readonly headers: Readonly<Record<string, string>>;
  /** `toolrack.oauth` of its entry, with variables replaced. */
  readonly settings: OAuthEntry;
  readonly clientName: string;
  /** For an API: where a person signs in, and where tokens are given. Of a server, both are found out. */
  readonly endpoints?: { readonly authorizationUrl: string; readonly tokenUrl: string } | undefined;
}

/** The client that the entry names, if it names one. */
export function configuredClient(settings: OAuthEntry): StoredOAuthClientInformation | undefined {
  const { clientId, clientSecret, issuer } = settings;
  return clientId === undefined ? undefined : { client_id: clientId, client_secret: clientSecret, issuer };
}

/** Joins lists of scopes without duplicates; undefined when there are none. */
export function joinScopes(...lists: readonly (string | undefined)[]): string | undefined {
  const scopes = new Set(lists.flatMap((list) => list?.split(/\s+/) ?? []).filter((scope) => scope !== ""));
  return scopes.size === 0 ? undefined : [...scopes].join(" ");
}
