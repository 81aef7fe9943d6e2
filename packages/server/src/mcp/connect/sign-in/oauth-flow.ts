import { lookup } from "node:dns/promises";
import {
  type AuthorizationServerMetadata,
  auth,
  ClientCredentialsProvider,
  discoverOAuthServerInfo,
  exchangeAuthorization,
  extractWWWAuthenticateParams,
  fetchToken,
  OAuthError,
  OAuthErrorCode,
  type OAuthMetadata,
  refreshAuthorization,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  selectResourceURL,
} from "@modelcontextprotocol/client";
import { createAddressRules } from "../../../access/index.ts";
import { plainHost } from "../../../helpers/index.ts";
import type { OAuthEntry } from "../config/entry.ts";
import { expand, type Surroundings } from "../config/resolve-entry.ts";
import { boundedFetch } from "../protocol/fetch.ts";
import { type KeptSignIn, SignInProvider } from "./vault.ts";

/** The MCP server that is signed in at. */
export interface SignInTarget {
  readonly url: URL;
  /** What its entry sends with every request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly settings: OAuthSettings;
  readonly clientName: string;
}

/** Somebody was sent to a page, and has not come back. */
export interface BegunSignIn {
  readonly page: URL;
  readonly target: SignInTarget;
  readonly provider: SignInProvider;
  /** What the server has asked for beyond what it first said, and is asked for now. */
  readonly wanted: string | undefined;
}

/** Finds out who signs in for the server, registers the rack there if need be, and makes the address of the page. */
export async function beginSignIn(
  target: SignInTarget,
  given: {
    readonly redirectUrl: string;
    readonly state: string;
    /** A client that was registered before. */
    readonly kept: StoredOAuthClientInformation | undefined;
    /** The scopes that the server has asked for since; undefined when it has not. */
    readonly wanted: string | undefined;
    /** Those that were granted before, which asking for more must not lose. */
    readonly granted: string | undefined;
  },
): Promise<BegunSignIn> {
  const { url, settings, clientName } = target;
  const { redirectUrl, state, kept, wanted, granted } = given;
  const configured = configuredClient(settings);
  const provider = new SignInProvider({
    redirectUrl,
    clientName,
    state,
    client: configured ?? (isRegisteredFor(kept, redirectUrl) ? kept : undefined),
    clientMetadataUrl: settings.clientMetadataUrl,
    canRegister: configured === undefined,
  });
  const fetchFn = oauthFetchFor(url, settings.issuer);
  const challenge = await askForChallenge(target, fetchFn);
  const base = settings.scope ?? challenge.scope;
  const scope = wanted === undefined ? base : joinScopes(base, granted, wanted);
  await auth(provider, {
    serverUrl: url,
    forceReauthorization: true,
    fetchFn,
    ...(scope === undefined ? {} : { scope }),
    ...(challenge.resourceMetadataUrl === undefined
      ? {}
      : { resourceMetadataUrl: challenge.resourceMetadataUrl }),
  });
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
    ...metadataOf(authority),
    clientInformation: client,
    authorizationCode: code,
    codeVerifier: provider.codeVerifier(),
    redirectUri: provider.redirectUrl,
    fetchFn: oauthFetchFor(target.url, target.settings.issuer),
    ...(iss === undefined ? {} : { iss }),
    ...(resource === undefined ? {} : { resource }),
  });
  const isOwn = configuredClient(target.settings)?.client_id !== client.client_id;
  const asked = page.searchParams.get("scope");
  return {
    server: target.url.href,
    ...(isOwn ? { client } : {}),
    authority,
    ...(asked === null ? {} : { asked }),
    ...(wanted === undefined ? {} : { wanted }),
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
      ...metadataOf(authority),
      clientInformation: client,
      refreshToken,
      fetchFn: oauthFetchFor(url, settings.issuer),
      ...(authority.resource === undefined ? {} : { resource: authority.resource }),
    });
    const { expiresAt: _, ...rest } = kept;
    return { ...rest, ...stampTokens(tokens) };
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
    await discoverOAuthServerInfo(url, {
      fetchFn,
      ...(challenge.resourceMetadataUrl === undefined
        ? {}
        : { resourceMetadataUrl: challenge.resourceMetadataUrl }),
    });
  const allowed = await selectResourceURL(url, provider, resourceMetadata);
  const resource = allowed === undefined ? undefined : resourceMetadata?.resource;
  const authority = authorityOf(authorizationServerUrl, authorizationServerMetadata, resource);
  const tokens = await fetchToken(provider, authorizationServerUrl, {
    ...metadataOf(authority),
    fetchFn,
    ...(resource === undefined ? {} : { resource }),
    ...(scope === undefined ? {} : { scope }),
  });
  return { server: url.href, authority, ...stampTokens(tokens) };
}

/** What the server says to who has no token: where its metadata is, and what may be asked for. */
async function askForChallenge(
  { url, headers }: SignInTarget,
  fetchFn: OAuthFetch,
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
  const { redirect_uris: addresses } = (client ?? {}) as { readonly redirect_uris?: unknown };
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
  return {
    url,
    ...(metadata === undefined ? {} : { metadata: needed(metadata) }),
    ...(resource === undefined ? {} : { resource }),
  };
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

function metadataOf({ metadata }: KeptSignIn["authority"]): { metadata?: OAuthMetadata } {
  return metadata === undefined ? {} : { metadata };
}

function stampTokens(tokens: StoredOAuthTokens): Pick<KeptSignIn, "tokens" | "expiresAt"> {
  const { expires_in: seconds } = tokens;
  return { tokens, ...(seconds === undefined ? {} : { expiresAt: Date.now() + seconds * 1000 }) };
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

export type OAuthFetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * How authorization servers are reached: none of them can keep the rack waiting, or fill its memory. Which they are, the
 * MCP server says; one on the Internet must not be able to have the rack send requests into a private network. `issuer`
 * is one that the operator named.
 */
export function oauthFetchFor(server: URL, issuer: string | undefined): OAuthFetch {
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

/** What an entry says about signing in, with its variables replaced. */
export interface OAuthSettings {
  readonly grant: "authorization_code" | "client_credentials";
  /** The client_id at authorization servers that read what stands there. */
  readonly clientMetadataUrl: string | undefined;
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  /** The only authorization server that the client is known to. */
  readonly issuer: string | undefined;
  readonly scope: string | undefined;
}

/** Throws an `Error` that names the key whose variable has no value, or whose value cannot be used. */
export async function resolveOAuth(
  { grant = "authorization_code", ...given }: OAuthEntry,
  where: string,
  surroundings: Surroundings,
): Promise<OAuthSettings> {
  const one = async (key: keyof typeof given) => {
    const text = given[key];
    return text === undefined ? undefined : expand(text, `${where}.toolrack.oauth.${key}`, surroundings);
  };
  const clientMetadataUrl = await one("clientMetadataUrl");
  if (clientMetadataUrl !== undefined && !isMetadataUrl(clientMetadataUrl)) {
    throw new Error(
      `${where}.toolrack.oauth.clientMetadataUrl must be the address of a document: it begins with https://, has a path, and has neither credentials nor a fragment.`,
    );
  }
  return {
    grant,
    clientMetadataUrl,
    clientId: await one("clientId"),
    clientSecret: await one("clientSecret"),
    issuer: await one("issuer"),
    scope: await one("scope"),
  };
}

/** Authorization servers compare it letter by letter, so it is sent as it is written. */
function isMetadataUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null) return false;
  const { protocol, pathname, username, password } = url;
  return protocol === "https:" && pathname !== "/" && username + password === "" && !text.includes("#");
}

/** The client that the entry names, if it names one. */
export function configuredClient({
  clientId,
  clientSecret,
  issuer,
}: OAuthSettings): StoredOAuthClientInformation | undefined {
  if (clientId === undefined) return undefined;
  return {
    client_id: clientId,
    ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
    ...(issuer === undefined ? {} : { issuer }),
  };
}

/** All scopes of these lists, each once, as OAuth writes them; undefined when there are none. */
export function joinScopes(...lists: readonly (string | undefined)[]): string | undefined {
  const scopes = new Set(lists.flatMap((list) => list?.split(/\s+/) ?? []).filter((scope) => scope !== ""));
  return scopes.size === 0 ? undefined : [...scopes].join(" ");
}
