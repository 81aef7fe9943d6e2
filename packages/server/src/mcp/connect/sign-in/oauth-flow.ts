import { lookup } from "node:dns/promises";
import {
  type AuthorizationServerMetadata,
  assertSecureTokenEndpoint,
  auth,
  ClientCredentialsProvider,
  discoverOAuthServerInfo,
  exchangeAuthorization,
  extractWWWAuthenticateParams,
  fetchToken,
  type OAuthClientMetadata,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  OAuthError,
  OAuthErrorCode,
  type OAuthMetadata,
  refreshAuthorization,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  selectClientAuthMethod,
  selectResourceURL,
} from "@modelcontextprotocol/client";
import { createAddressRules } from "../../../access/index.ts";
import { plainHost } from "../../../helpers/index.ts";
import { boundedFetch, type Fetch } from "../protocol/http.ts";
import { configuredClient, joinScopes, type KeptSignIn, type SignInTarget } from "./vault.ts";

/** Somebody was sent to a page, and has not come back. */
export interface BegunSignIn {
  readonly page: URL;
  readonly target: SignInTarget;
  readonly provider: SignInProvider;
  /** What the server has asked for beyond what it first said, and is asked for now. */
  readonly wanted: string | undefined;
}

interface BeginOptions {
  readonly redirectUrl: string;
  readonly state: string;
  /** A client that was registered before. */
  readonly kept: StoredOAuthClientInformation | undefined;
  /** The scopes that the server has asked for since; undefined when it has not. */
  readonly wanted: string | undefined;
  /** Those that were granted before, which asking for more must not lose. */
  readonly granted: string | undefined;
}

/** Finds out who signs in for the server, registers the rack there if need be, and makes the address of the page. */
export async function beginSignIn(target: SignInTarget, options: BeginOptions): Promise<BegunSignIn> {
  const { url, settings } = target;
  const { wanted, granted } = options;
  const provider = new SignInProvider(target, options);
  const fetchFn = oauthFetchFor(url, settings.issuer);
  const challenge = await askForChallenge(target, fetchFn);
  const base = settings.scope ?? challenge.scope;
  const scope = wanted === undefined ? base : joinScopes(base, granted, wanted);
  const { resourceMetadataUrl } = challenge;
  await auth(provider, { serverUrl: url, forceReauthorization: true, fetchFn, scope, resourceMetadataUrl });
  const { page } = provider;
  if (page === undefined || !isSafePage(page)) {
    throw new Error("The authorization server names no page to sign in at that begins with https://.");
  }
  return { page, target, provider, wanted };
}

/** Exchanges the code that the person came back with. */
export async function finishSignIn(
  { page, target, provider, wanted }: BegunSignIn,
  code: string,
  iss: string | undefined,
): Promise<KeptSignIn> {
  const discovery = provider.discoveryState();
  const client = provider.clientInformation();
  if (discovery === undefined || client === undefined) throw new Error("The sign-in was never begun.");
  const { authorizationServerUrl, authorizationServerMetadata } = discovery;
  const { resource } = provider;
  const authority = authorityOf(authorizationServerUrl, authorizationServerMetadata, resource);
  const tokens = await exchangeAuthorization(authorizationServerUrl, {
    metadata: authority.metadata,
    clientInformation: client,
    authorizationCode: code,
    codeVerifier: provider.codeVerifier(),
    redirectUri: provider.redirectUrl,
    fetchFn: oauthFetchFor(target.url, target.settings.issuer),
    iss,
    resource,
  });
  const isOwn = configuredClient(target.settings)?.client_id !== client.client_id;
  return {
    server: target.url.href,
    client: isOwn ? client : undefined,
    authority,
    asked: page.searchParams.get("scope") ?? undefined,
    wanted,
    ...stampTokens(tokens),
  };
}

/** Undefined when the authorization server will not give new tokens any more. Throws when it cannot be asked now. */
export async function renewSignIn(
  kept: KeptSignIn,
  { url, settings }: SignInTarget,
): Promise<KeptSignIn | undefined> {
  // Tokens are renewed by whom they were given to, whatever the entry says since.
  const client = kept.client ?? configuredClient(settings);
  const { refresh_token: refreshToken } = kept.tokens;
  if (client === undefined || refreshToken === undefined) return undefined;
  const { authority } = kept;
  try {
    const tokens = await refreshAuthorization(authority.url, {
      metadata: authority.metadata,
      clientInformation: client,
      refreshToken,
      fetchFn: oauthFetchFor(url, settings.issuer),
      resource: authority.resource,
    });
    return { ...kept, ...stampTokens(tokens) };
  } catch (thrown) {
    if (isRefusal(thrown)) return undefined;
    throw thrown;
  }
}

/** Tokens for a machine, for which nobody signs in. `wanted`: what the server has asked for since. */
export async function signInAsMachine(target: SignInTarget, wanted: string | undefined): Promise<KeptSignIn> {
  const { url, settings, clientName } = target;
  const { clientId = "", clientSecret = "", issuer = "" } = settings;
  const provider = new ClientCredentialsProvider({
    clientId,
    clientSecret,
    clientName,
    expectedIssuer: issuer,
  });
  const fetchFn = oauthFetchFor(url, issuer);
  const challenge = await askForChallenge(target, fetchFn);
  const scope = joinScopes(settings.scope ?? challenge.scope, wanted);
  const { authorizationServerUrl, authorizationServerMetadata, resourceMetadata } =
    await discoverOAuthServerInfo(url, { fetchFn, resourceMetadataUrl: challenge.resourceMetadataUrl });
  const allowed = await selectResourceURL(url, provider, resourceMetadata);
  const resource = allowed === undefined ? undefined : resourceMetadata?.resource;
  const authority = authorityOf(authorizationServerUrl, authorizationServerMetadata, resource);
  const options = { metadata: authority.metadata, fetchFn, resource, scope };
  const tokens = await fetchToken(provider, authorizationServerUrl, options);
  return { server: url.href, authority, ...stampTokens(tokens) };
}

/** What the server says to who has no token: where its metadata is, and what may be asked for. */
async function askForChallenge(
  { url, headers }: SignInTarget,
  fetchFn: Fetch,
): Promise<ReturnType<typeof extractWWWAuthenticateParams>> {
  const response = await fetchFn(url, {
    method: "POST",
    redirect: "manual",
    headers: {
      ...headers,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
  });
  await response.body?.cancel();
  return response.status === 401 ? extractWWWAuthenticateParams(response) : {};
}

/** Authorization servers send people back only to where the client was registered for. */
function isRegisteredFor(client: StoredOAuthClientInformation | undefined, redirectUrl: string): boolean {
  const addresses: unknown = client !== undefined && "redirect_uris" in client ? client.redirect_uris : [];
  return Array.isArray(addresses) && addresses.includes(redirectUrl);
}

/** The page is opened on a person's machine, and its address comes from elsewhere. */
function isSafePage({ protocol, hostname }: URL): boolean {
  const isOwnMachine = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
  return protocol === "https:" || (protocol === "http:" && isOwnMachine);
}

function authorityOf(
  url: string,
  metadata: AuthorizationServerMetadata | undefined,
  resource: string | undefined,
): KeptSignIn["authority"] {
  return { url, metadata: metadata && needed(metadata), resource };
}

/** What is needed after the sign-in. The rest, which may be long, is asked for again with the next one. */
function needed(metadata: AuthorizationServerMetadata): OAuthMetadata {
  // Servers of OpenID Connect may have these members too; the SDK's type of them does not say so.
  const all = metadata as OAuthMetadata;
  const wanted = [
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "token_endpoint_auth_methods_supported",
    "revocation_endpoint",
    "revocation_endpoint_auth_methods_supported",
    "response_types_supported",
    "authorization_response_iss_parameter_supported",
  ] as const;
  const present = wanted.filter((member) => all[member] !== undefined);
  // The required ones are among them.
  return Object.fromEntries(present.map((member) => [member, all[member]])) as OAuthMetadata;
}

function stampTokens(tokens: StoredOAuthTokens): Pick<KeptSignIn, "tokens" | "expiresAt"> {
  const { expires_in: seconds } = tokens;
  return { tokens, expiresAt: seconds === undefined ? undefined : Date.now() + seconds * 1000 };
}

/** The authorization server has decided: trying again changes nothing. */
function isRefusal(thrown: unknown): boolean {
  const final: readonly string[] = [
    OAuthErrorCode.InvalidGrant,
    OAuthErrorCode.InvalidClient,
    OAuthErrorCode.UnauthorizedClient,
  ];
  return thrown instanceof OAuthError && final.includes(thrown.code);
}

/** Metadata and tokens are small. */
const LARGEST_ANSWER = 1024 * 1024;
const PATIENCE = 20_000;

const bounded = boundedFetch(LARGEST_ANSWER);
const publicOnly = createAddressRules([]);

/**
 * How authorization servers are reached: none of them can keep the rack waiting, or fill its memory. Which they are, the
 * MCP server says; one on the Internet must not be able to have the rack send requests into a private network. `issuer`
 * is one that the operator named.
 */
export function oauthFetchFor(server: URL, issuer: string | undefined): Fetch {
  const named = [server, URL.parse(issuer ?? "")].flatMap((url) => (url === null ? [] : [url.hostname]));
  return async (input, init = {}) => {
    const { hostname, origin } = new URL(input);
    const isForeign = !named.includes(hostname);
    if (isForeign && !(await isInner(server.hostname)) && (await isInner(hostname))) {
      throw new Error(
        `${server.host} names ${origin} for signing in, which is in a private network, so it was not asked. If that is right, name it as toolrack.oauth.issuer in the entry.`,
      );
    }
    const limit = AbortSignal.timeout(PATIENCE);
    const signal = init.signal == null ? limit : AbortSignal.any([init.signal, limit]);
    return bounded(input, { ...init, signal });
  };
}

/** Of a name that cannot be found, the request itself says so. */
async function isInner(hostname: string): Promise<boolean> {
  const host = plainHost(hostname);
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.some(({ address }) => publicOnly.refusal(host, address) !== undefined);
}

/** What the SDK finds out on the way to the page where a person signs in. It lasts for one attempt. */
class SignInProvider implements OAuthClientProvider {
  readonly redirectUrl: string;
  readonly clientMetadata: OAuthClientMetadata;
  readonly saveClientInformation?: (client: StoredOAuthClientInformation) => void;
  /** Where the person signs in. */
  page: URL | undefined;
  resource: string | undefined;
  readonly #state: string;
  readonly #clientMetadataUrl: string | undefined;
  /** A client that is known: of the entry, or registered at an earlier time. */
  #client: StoredOAuthClientInformation | undefined;
  #verifier = "";
  #discovery: OAuthDiscoveryState | undefined;

  constructor({ settings, clientName }: SignInTarget, { redirectUrl, state, kept }: BeginOptions) {
    this.redirectUrl = redirectUrl;
    this.clientMetadata = {
      client_name: clientName,
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
    this.#state = state;
    this.#clientMetadataUrl = settings.clientMetadataUrl;
    this.#client = configuredClient(settings);
    if (this.#client !== undefined) return;
    if (isRegisteredFor(kept, redirectUrl)) this.#client = kept;
    // The SDK registers a client exactly when it can be saved.
    this.saveClientInformation = (registered) => {
      this.#client = registered;
    };
  }

  state(): string {
    return this.#state;
  }

  /**
   * Is asked once the authorization server is known. The address of a document comes before a client that was registered:
   * the SDK would only take it where there is none.
   */
  clientInformation(): StoredOAuthClientInformation | undefined {
    const clientMetadataUrl = this.#clientMetadataUrl;
    const metadata = this.#discovery?.authorizationServerMetadata;
    const isRead = metadata?.client_id_metadata_document_supported === true;
    if (clientMetadataUrl === undefined || !isRead) return this.#client;
    return { client_id: clientMetadataUrl, issuer: metadata.issuer };
  }

  /** A new sign-in begins without what an earlier one was given. */
  tokens(): undefined {}

  saveTokens(): void {}

  redirectToAuthorization(page: URL): void {
    this.page = page;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  saveResourceUrl(resource: string): void {
    this.resource = resource;
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.#discovery = discovery;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }
}

/** Has the tokens taken back. Says whether the authorization server can do that, and did. */
export async function revokeSignIn(kept: KeptSignIn, { url, settings }: SignInTarget): Promise<boolean> {
  const { metadata } = kept.authority;
  const client = kept.client ?? configuredClient(settings);
  const endpoint = metadata?.revocation_endpoint;
  if (endpoint === undefined || client === undefined) return false;
  const { client_id: id, client_secret: secret = "" } = client;
  const supported =
    metadata?.revocation_endpoint_auth_methods_supported ?? metadata?.token_endpoint_auth_methods_supported;
  const method = selectClientAuthMethod(client, supported ?? []);
  const fetchFn = oauthFetchFor(url, settings.issuer);
  const revoke = async (token: string, hint: string) => {
    const body = new URLSearchParams({ token, token_type_hint: hint });
    const headers = new Headers({ accept: "application/json" });
    if (method === "client_secret_basic") {
      const pair = [id, secret].map(encodeURIComponent).join(":");
      headers.set("authorization", `Basic ${Buffer.from(pair).toString("base64")}`);
    } else body.set("client_id", id);
    if (method === "client_secret_post") body.set("client_secret", secret);
    const request = { method: "POST", headers, body, redirect: "error" } as const;
    const response = await fetchFn(assertSecureTokenEndpoint(endpoint), request);
    await response.body?.cancel();
    return response.ok;
  };
  const { access_token, refresh_token } = kept.tokens;
  // The one that lives longer first: with it, most servers take back both.
  const isRefreshRevoked = refresh_token === undefined || (await revoke(refresh_token, "refresh_token"));
  return (await revoke(access_token, "access_token")) && isRefreshRevoked;
}
