import { createHash } from "node:crypto";
import {
  assertSecureTokenEndpoint,
  type OAuthClientInformationContext,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthMetadata,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  selectClientAuthMethod,
} from "@modelcontextprotocol/client";
import { SecretError, type Secrets } from "../../../access/index.ts";
import { isRecord } from "../../../helpers/index.ts";
import { isLocal, type ServerEntry } from "../config/entry.ts";
import { isSecretName, isSecretParameter } from "../config/hidden.ts";
import { sentence } from "../protocol/failures.ts";
import { configuredClient, type OAuthFetch, oauthFetchFor, type SignInTarget } from "./oauth-flow.ts";

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

export interface SignInProviderOptions {
  readonly redirectUrl: string;
  readonly clientName: string;
  readonly state: string;
  /** A client that is known: of the entry, or registered at an earlier time. */
  readonly client: StoredOAuthClientInformation | undefined;
  /** Where a document says who the rack is, for authorization servers that read such documents. */
  readonly clientMetadataUrl: string | undefined;
  /** Whether the rack may register itself where it is not known. */
  readonly canRegister: boolean;
}

/** What the SDK finds out on the way to the page where a person signs in. It lasts for one attempt. */
export class SignInProvider implements OAuthClientProvider {
  readonly redirectUrl: string;
  readonly clientMetadata: OAuthClientMetadata;
  readonly saveClientInformation?: (
    client: StoredOAuthClientInformation,
    context?: OAuthClientInformationContext,
  ) => void;
  readonly #state: string;
  readonly #clientMetadataUrl: string | undefined;
  #client: StoredOAuthClientInformation | undefined;
  #page: URL | undefined;
  #verifier = "";
  #discovery: OAuthDiscoveryState | undefined;
  #resource: string | undefined;

  constructor(options: SignInProviderOptions) {
    const { redirectUrl, clientName, state, client, clientMetadataUrl, canRegister } = options;
    this.redirectUrl = redirectUrl;
    this.clientMetadata = {
      client_name: clientName,
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
    this.#state = state;
    this.#clientMetadataUrl = clientMetadataUrl;
    this.#client = client;
    // The SDK registers a client exactly when it can be saved.
    if (canRegister) {
      this.saveClientInformation = (registered) => {
        this.#client = registered;
      };
    }
  }

  /** Where the person signs in. */
  get page(): URL | undefined {
    return this.#page;
  }

  get resource(): string | undefined {
    return this.#resource;
  }

  state(): string {
    return this.#state;
  }

  /**
   * Is asked once the authorization server is known. The address of a document comes before a client that was registered:
   * the SDK would only take it where there is none.
   */
  clientInformation(): StoredOAuthClientInformation | undefined {
    const metadata = this.#discovery?.authorizationServerMetadata;
    if (this.#clientMetadataUrl === undefined || metadata?.client_id_metadata_document_supported !== true) {
      return this.#client;
    }
    return { client_id: this.#clientMetadataUrl, issuer: metadata.issuer };
  }

  /** A new sign-in begins without what an earlier one was given. */
  tokens(): StoredOAuthTokens | undefined {
    return undefined;
  }

  saveTokens(): void {}

  redirectToAuthorization(page: URL): void {
    this.#page = page;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  saveResourceUrl(resource: string): void {
    this.#resource = resource;
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.#discovery = discovery;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }
}

/** What went wrong between the rack and an authorization server, in words. They are not masked yet. */
export function signInProblem(thrown: unknown): string {
  const { message, cause } = thrown instanceof Error ? thrown : new Error(String(thrown));
  const plain = message === "fetch failed" && cause instanceof Error ? cause.message : message;
  return issueIn(thrown) ?? oddAnswer(thrown) ?? plain;
}

/** Of a text that has the wrong form, Zod lists everything that is wrong with it; one thing of it is enough to know. */
function issueIn(thrown: unknown): string | undefined {
  const { issues } = (thrown ?? {}) as { readonly issues?: unknown };
  const [first] = Array.isArray(issues) ? issues : [];
  if (!isRecord(first)) return undefined;
  const path = Array.isArray(first.path) ? first.path.join(".") : "";
  return `What the authorization server says about itself cannot be used: ${sentence(`${path}: ${String(first.message)}`)}`;
}

/** Those who answer with a good status and no JSON say nothing about why. */
function oddAnswer(thrown: unknown): string | undefined {
  if (!(thrown instanceof SyntaxError)) return undefined;
  const what = /end of JSON input/.test(thrown.message)
    ? "an answer that is empty or cut off"
    : "something that is no JSON";
  return `The authorization server sent ${what} where it should have described itself, a client or tokens. Tell whoever runs it, or register the rack there by hand and name the client in the entry: toolrack.oauth.clientId.`;
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

/** Has the tokens taken back. Says whether the authorization server can do that, and did. */
export async function revokeSignIn(kept: KeptSignIn, { url, settings }: SignInTarget): Promise<boolean> {
  const { metadata } = kept.authority;
  const client = kept.client ?? configuredClient(settings);
  const endpoint = metadata?.revocation_endpoint;
  if (endpoint === undefined || client === undefined) return false;
  const { access_token, refresh_token } = kept.tokens;
  const fetchFn = oauthFetchFor(url, settings.issuer);
  const outcomes: boolean[] = [];
  // The one that lives longer first: with it, most servers take back both.
  for (const [hint, token] of Object.entries({ refresh_token, access_token })) {
    if (token !== undefined)
      outcomes.push(await revoke(endpoint, { metadata, client, token, hint, fetchFn }));
  }
  return outcomes.length > 0 && outcomes.every(Boolean);
}

interface Revocation {
  readonly metadata: OAuthMetadata | undefined;
  readonly client: StoredOAuthClientInformation;
  readonly token: string;
  readonly hint: string;
  readonly fetchFn: OAuthFetch;
}

async function revoke(
  endpoint: string,
  { metadata, client, token, hint, fetchFn }: Revocation,
): Promise<boolean> {
  const { client_id: id, client_secret: secret = "" } = client;
  const supported =
    metadata?.revocation_endpoint_auth_methods_supported ?? metadata?.token_endpoint_auth_methods_supported;
  const method = selectClientAuthMethod(client, supported ?? []);
  const body = new URLSearchParams({ token, token_type_hint: hint });
  const headers = new Headers({ accept: "application/json" });
  if (method === "client_secret_basic") {
    const pair = [id, secret].map(encodeURIComponent).join(":");
    headers.set("authorization", `Basic ${Buffer.from(pair).toString("base64")}`);
  } else body.set("client_id", id);
  if (method === "client_secret_post") body.set("client_secret", secret);
  const response = await fetchFn(assertSecureTokenEndpoint(endpoint), {
    method: "POST",
    headers,
    body,
    redirect: "error",
  });
  await response.body?.cancel();
  return response.ok;
}
