import { createHash } from "node:crypto";
import type {
  OAuthMetadata,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import type { Secrets } from "../../../secrets/open-secrets.ts";
import { SecretError } from "../../../secrets/secret-error.ts";

/** What a sign-in has left: who the rack is for the server, and what it was given. */
export interface KeptSignIn {
  /** The address of the MCP server. Another server under the same key is never sent what this one was. */
  readonly server: string;
  /** The client that the tokens were given to. Undefined when it is the one that the entry names. */
  readonly client?: StoredOAuthClientInformation;
  /** Where tokens are renewed and taken back. */
  readonly authority: {
    readonly url: string;
    readonly metadata?: OAuthMetadata;
    /** What the tokens are for, in the words of the MCP server. */
    readonly resource?: string;
  };
  readonly tokens: StoredOAuthTokens;
  /** The scope that was asked for; an authorization server that grants just that need not say so. */
  readonly asked?: string;
  /** The part of it that the server asked for only when something was called that needs it. */
  readonly wanted?: string;
  /** Milliseconds since the epoch. Undefined when the server did not say. */
  readonly expiresAt?: number;
}

export type VaultSecrets = Pick<Secrets, "get" | "set" | "replace" | "remove" | "learn">;

const LONGEST_NAME = 100;

/** Keeps the sign-in of one server among the secrets, encrypted like them. */
export class SignInVault {
  readonly #name: string;
  readonly #secrets: VaultSecrets;

  constructor(key: string, secrets: VaultSecrets) {
    const plain = `mcp-oauth.${key}`;
    this.#name =
      // A key may have what the name of a secret cannot.
      plain.length <= LONGEST_NAME && /^[\w.-]+$/.test(plain)
        ? plain
        : `mcp-oauth.${createHash("sha256").update(key).digest("hex").slice(0, 32)}`;
    this.#secrets = secrets;
  }

  /** Undefined when there is none for this server. Throws `SecretError` for one that cannot be read. */
  async read(server: string): Promise<KeptSignIn | undefined> {
    const text = await this.#secrets.get(this.#name);
    if (text === undefined) return undefined;
    // What is read is what `write` wrote: the secrets check that nobody changed it.
    const kept = JSON.parse(text) as KeptSignIn;
    this.#learn(kept);
    return kept.server === server ? kept : undefined;
  }

  async write(kept: KeptSignIn): Promise<void> {
    this.#learn(kept);
    await this.#secrets.set(this.#name, JSON.stringify(kept));
  }

  /**
   * Only while `before` is what is kept, and says whether it was: another process may have signed out, or been given new
   * tokens for it.
   */
  async replace(kept: KeptSignIn, before: KeptSignIn): Promise<boolean> {
    this.#learn(kept);
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
    for (;;) {
      const text = await this.#secrets.get(this.#name).catch(unlessUnreadable);
      if (text === undefined) return undefined;
      if (text === UNREADABLE) {
        await this.#secrets.remove(this.#name);
        return undefined;
      }
      if (await this.#secrets.remove(this.#name, text)) return this.#parse(text, server);
    }
  }

  /** Undefined for one of another server, and for what is none. */
  #parse(text: string, server: string | undefined): KeptSignIn | undefined {
    try {
      // As in `read`.
      const kept = JSON.parse(text) as KeptSignIn;
      this.#learn(kept);
      return kept.server === server ? kept : undefined;
    } catch {
      return undefined;
    }
  }

  /** The text of this sign-in, where it is the one that is kept. */
  async #find({ tokens }: KeptSignIn): Promise<string | undefined> {
    const text = await this.#secrets.get(this.#name);
    if (text === undefined) return undefined;
    // As in `read`.
    const kept = JSON.parse(text) as KeptSignIn;
    return kept.tokens.access_token === tokens.access_token ? text : undefined;
  }

  /** From now on a value is masked wherever it would show. */
  learn(...values: readonly (string | undefined)[]): void {
    for (const value of values)
      if (value !== undefined && value !== "") this.#secrets.learn(this.#name, value);
  }

  #learn({ tokens, client }: KeptSignIn): void {
    this.learn(tokens.access_token, tokens.refresh_token, tokens.id_token, client?.client_secret);
  }
}

/** What stands for a secret that is there and that this workspace's key did not encrypt. */
const UNREADABLE = Symbol("unreadable");

function unlessUnreadable(thrown: unknown): typeof UNREADABLE {
  if (thrown instanceof SecretError) return UNREADABLE;
  throw thrown;
}
