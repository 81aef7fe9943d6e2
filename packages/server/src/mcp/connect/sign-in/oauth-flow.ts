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
  startAuthorization,
} from "@modelcontextprotocol/client";
import { createAddressRules } from "../../../access/index.ts";
import { plainHost } from "../../../helpers/index.ts";
import { boundedText } from "../protocol/http-client.ts";
import { configuredClient, joinScopes, type KeptSignIn, type SignInTarget } from "./stored-sign-in.ts";

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** What the SDK finds out while a sign-in begins. */
interface Findings {
  /** The page where the person signs in. */
  page?: URL;
  resource?: string;
  verifier?: string;
  discovery?: OAuthDiscoveryState;
  /** The client that the entry names, or a client that was registered for the rack. */
  client?: StoredOAuthClientInformation | undefined;
}

/** A sign-in that was begun: the person was sent to the page and has not come back yet. */
export interface BegunSignIn {
  readonly page: URL;
  readonly target: SignInTarget;
  readonly redirectUrl: string;
  readonly client: StoredOAuthClientInformation | undefined;
  readonly findings: Findings;
  /** Additional scopes that the server asked for later. */
  readonly wanted: string | undefined;
}

interface BeginOptions {
  readonly redirectUrl: string;
  readonly state: string;
  /** The OAuth client that an earlier sign-in registered at the server, if it is still known. */
  readonly kept: StoredOAuthClientInformation | undefined;
  /** Additional scopes that the server asked for since the last sign-in. */
  readonly wanted: string | undefined;
  /** The scopes granted before. They are requested again, so that they are not lost. */
  readonly granted: string | undefined;
}

/** Finds the authorization server, registers the rack there if needed, and makes the address of the sign-in page. */
export async function beginSignIn(target: SignInTarget, options: BeginOptions): Promise<BegunSignIn> {
  const { wanted, redirectUrl } = options;
  const findings = await (target.endpoints === undefined
    ? discover(target, options)
    : described(target, options));
  const { page } = findings;
  if (page === undefined || !isSafePage(page)) {
    throw new Error("The authorization server names no page to sign in at that begins with https://.");
  }
  return { page, target, redirectUrl, client: usedClient(target, findings), findings, wanted };
}

async function discover(target: SignInTarget, options: BeginOptions): Promise<Findings> {
  const { url, settings } = target;
  const { wanted, granted } = options;
  const findings: Findings = {};
  const provider = signInProvider(target, options, findings);
  const fetchFn = oauthFetchFor(url, settings.issuer);
  const { resourceMetadataUrl, scope: asked } = await askForChallenge(target, fetchFn);
  const base = settings.scope ?? asked;
  const scope = wanted === undefined ? base : joinScopes(base, granted, wanted);
  await auth(provider, { serverUrl: url, forceReauthorization: true, fetchFn, scope, resourceMetadataUrl });
  return findings;
}

/** For an API: its entry names the client, and its entry or description the addresses, so nothing has to be found out. */
async function described(
  { settings, endpoints }: SignInTarget,
  { redirectUrl, state }: BeginOptions,
): Promise<Findings> {
  const client = configuredClient(settings);
  if (client === undefined || endpoints === undefined) throw new Error("The API's entry names no client.");
  const { authorizationUrl, tokenUrl } = endpoints;
  // Nobody says who the issuer is, so that the name which some authorization servers send back is not compared.
  const metadata = {
    authorization_endpoint: authorizationUrl,
    token_endpoint: tokenUrl,
    response_types_supported: ["code"],
  } as unknown as OAuthMetadata; // Its only other required member is the issuer.
  const begun = await startAuthorization(tokenUrl, {
    metadata,
    clientInformation: client,
    redirectUrl,
    state,
    ...(settings.scope !== undefined && { scope: settings.scope }),
  });
  const discovery = { authorizationServerUrl: tokenUrl, authorizationServerMetadata: metadata };
  return { page: begun.authorizationUrl, verifier: begun.codeVerifier, discovery, client };
}

/** Exchanges the code from the callback for tokens. */
export async function finishSignIn(
  { page, target, redirectUrl, client, findings, wanted }: BegunSignIn,
  code: string,
  iss: string | undefined,
): Promise<KeptSignIn> {
  const { discovery, resource, verifier = "" } = findings;
  if (discovery === undefined || client === undefined) throw new Error("The sign-in was never begun.");
  const { authorizationServerUrl, authorizationServerMetadata } = discovery;
  const authority = authorityOf(authorizationServerUrl, authorizationServerMetadata, resource);
  const tokens = await exchangeAuthorization(authorizationServerUrl, {
    metadata: authority.metadata,
    clientInformation: client,
    authorizationCode: code,
    codeVerifier: verifier,
    redirectUri: redirectUrl,
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

/** Renews the tokens. Undefined when the authorization server refuses for good. Throws when it cannot be reached now. */
export async function renewSignIn(
  kept: KeptSignIn,
  { url, settings }: SignInTarget,
): Promise<KeptSignIn | undefined> {
  // Tokens must be renewed by the client that they belong to, even if the entry names another one now.
  const client = kept.client ?? configuredClient(settings);
  const { refresh_token: refreshToken } = kept.tokens;
  if (client === undefined || refreshToken === undefined) return undefined;
  const { url: place, metadata, resource } = kept.authority;
  const fetchFn = oauthFetchFor(url, settings.issuer);
  try {
    const options = { metadata, clientInformation: client, refreshToken, fetchFn, resource };
    return { ...kept, ...stampTokens(await refreshAuthorization(place, options)) };
  } catch (thrown) {
    if (thrown instanceof OAuthError && finalErrors.has(thrown.code)) return undefined;
    throw thrown;
  }
}

/** Errors after which trying again does not help. */
const finalErrors: ReadonlySet<string> = new Set([
  OAuthErrorCode.InvalidGrant,
  OAuthErrorCode.InvalidClient,
  OAuthErrorCode.UnauthorizedClient,
]);

/** Gets tokens with client credentials, without a person. `wanted`: additional scopes that the server asked for. */
export async function signInAsMachine(target: SignInTarget, wanted: string | undefined): Promise<KeptSignIn> {
  const { url, settings, clientName } = target;
  const { clientId = "", clientSecret = "", issuer: expectedIssuer = "" } = settings;
  const provider = new ClientCredentialsProvider({ clientId, clientSecret, clientName, expectedIssuer });
  const fetchFn = oauthFetchFor(url, expectedIssuer);
  const { scope: asked, resourceMetadataUrl } = await askForChallenge(target, fetchFn);
  const scope = joinScopes(settings.scope ?? asked, wanted);
  const { authorizationServerUrl, authorizationServerMetadata, resourceMetadata } =
    await discoverOAuthServerInfo(url, { fetchFn, resourceMetadataUrl });
  const allowed = await selectResourceURL(url, provider, resourceMetadata);
  const resource = allowed === undefined ? undefined : resourceMetadata?.resource;
  const authority = authorityOf(authorizationServerUrl, authorizationServerMetadata, resource);
  const options = { metadata: authority.metadata, fetchFn, resource, scope };
  const tokens = await fetchToken(provider, authorizationServerUrl, options);
  return { server: url.href, authority, ...stampTokens(tokens) };
}

/** Sends a request without a token, to learn where the server's metadata is and which scope it wants. */
async function askForChallenge(
  { url, headers }: SignInTarget,
  fetchFn: Fetch,
): Promise<ReturnType<typeof extractWWWAuthenticateParams>> {
  const accept = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  const init = { method: "POST", redirect: "manual", headers: { ...headers, ...accept }, body } as const;
  const response = await fetchFn(url, init);
  return response.status === 401 ? extractWWWAuthenticateParams(response) : {};
}

/** Whether the client was registered with this address. Authorization servers redirect only to registered addresses. */
function isRegisteredFor(client: StoredOAuthClientInformation | undefined, redirectUrl: string): boolean {
  const addresses: unknown = client !== undefined && "redirect_uris" in client ? client.redirect_uris : [];
  return Array.isArray(addresses) && addresses.includes(redirectUrl);
}

/** The page opens on a person's machine and its address comes from outside, so only https or the own machine is allowed. */
function isSafePage({ protocol, hostname }: URL): boolean {
  const isOwnMachine = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
  return protocol === "https:" || (protocol === "http:" && isOwnMachine);
}

/** The members of an authorization server's metadata that are needed after the sign-in. The rest may be long. */
const neededMetadata = [
  "issuer",
  "authorization_endpoint",
  "token_endpoint",
  "token_endpoint_auth_methods_supported",
  "revocation_endpoint",
  "revocation_endpoint_auth_methods_supported",
  "response_types_supported",
  "authorization_response_iss_parameter_supported",
] as const;

function authorityOf(
  url: string,
  given: AuthorizationServerMetadata | undefined,
  resource: string | undefined,
): KeptSignIn["authority"] {
  if (given === undefined) return { url, resource };
  // OpenID Connect servers may have these members too, although the SDK's type does not say so.
  const all = given as OAuthMetadata;
  const present = neededMetadata.filter((member) => all[member] !== undefined);
  // The members that the type requires are all among the needed ones.
  const metadata = Object.fromEntries(present.map((member) => [member, all[member]])) as OAuthMetadata;
  return { url, metadata, resource };
}

function stampTokens(tokens: StoredOAuthTokens): Pick<KeptSignIn, "tokens" | "expiresAt"> {
  const { expires_in: seconds } = tokens;
  return { tokens, expiresAt: seconds === undefined ? undefined : Date.now() + seconds * 1000 };
}

/** The largest answer of an authorization server that is read, in bytes. Metadata and tokens are small. */
const LARGEST_ANSWER = 1024 * 1024;
const REQUEST_TIMEOUT = 20_000;
const publicOnly = createAddressRules([]);

/**
 * A `fetch` for authorization servers, with limits for time and size. The MCP server names the authorization server, so a
 * server on the Internet could make the rack send requests into a private network; that is refused. `issuer`: the
 * authorization server that the operator named, which is always allowed.
 */
export function oauthFetchFor(server: URL, issuer: string | undefined): Fetch {
  const named = [server.hostname, URL.parse(issuer ?? "")?.hostname];
  return async (input, init = {}) => {
    const { hostname, origin } = new URL(input);
    const isForeign = !named.includes(hostname);
    if (isForeign && !(await isPrivate(server.hostname)) && (await isPrivate(hostname))) {
      throw new Error(
        `${server.host} names ${origin} for signing in, which is in a private network, so it was not asked. If that is right, name it in the entry: as toolrack.oauth.issuer, or as tokenUrl in the auth of an API.`,
      );
    }
    const limit = AbortSignal.timeout(REQUEST_TIMEOUT);
    const signal = init.signal == null ? limit : AbortSignal.any([init.signal, limit]);
    const response = await fetch(input, { ...init, signal });
    if (response.body === null) return response;
    const { status, statusText, headers } = response;
    // The MCP server itself may answer with a stream, which nobody reads.
    const isStream = /event-stream/.test(headers.get("content-type") ?? "");
    if (isStream) await response.body.cancel();
    const text = isStream ? "" : await boundedText(response.body, LARGEST_ANSWER);
    const read = new Response(text, { status, statusText, headers });
    // A new `Response` has no url, but the SDK needs it to check redirects.
    return Object.defineProperty(read, "url", { value: response.url });
  };
}

/** False for a name that cannot be resolved: the request itself then fails. */
async function isPrivate(hostname: string): Promise<boolean> {
  const host = plainHost(hostname);
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.some(({ address }) => publicOnly.refusal(host, address) !== undefined);
}

/**
 * The client to use when the authorization server is known. Prefers the metadata document to a registered
 * client, because the SDK would use the document only if there were no registered client.
 */
function usedClient(
  { settings: { clientMetadataUrl } }: SignInTarget,
  { client, discovery }: Findings,
): StoredOAuthClientInformation | undefined {
  const metadata = discovery?.authorizationServerMetadata;
  const isRead = metadata?.client_id_metadata_document_supported === true;
  if (clientMetadataUrl === undefined || !isRead) return client;
  return { client_id: clientMetadataUrl, issuer: metadata.issuer };
}

/** The functions by which the SDK stores in `findings` what it finds out. */
function signInProvider(
  target: SignInTarget,
  options: BeginOptions,
  findings: Findings,
): OAuthClientProvider {
  const { redirectUrl, state, kept } = options;
  const configured = configuredClient(target.settings);
  findings.client = configured ?? (isRegisteredFor(kept, redirectUrl) ? kept : undefined);
  const saveClientInformation = (client: StoredOAuthClientInformation) =>
    void Object.assign(findings, { client });
  return {
    redirectUrl,
    clientMetadata: {
      client_name: target.clientName,
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    },
    state: () => state,
    clientInformation: () => usedClient(target, findings),
    // The SDK registers a client only if this function exists.
    ...(configured === undefined ? { saveClientInformation } : {}),
    // A new sign-in must not use earlier tokens.
    tokens: () => undefined,
    saveTokens: () => {},
    redirectToAuthorization: (page) => void Object.assign(findings, { page }),
    saveCodeVerifier: (verifier) => void Object.assign(findings, { verifier }),
    codeVerifier: () => findings.verifier ?? "",
    saveResourceUrl: (resource) => void Object.assign(findings, { resource }),
    saveDiscoveryState: (discovery) => void Object.assign(findings, { discovery }),
    discoveryState: () => findings.discovery,
  };
}

/** Revokes the tokens. Resolves to whether the authorization server supports that and did it. */
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
    return (await fetchFn(assertSecureTokenEndpoint(endpoint), request)).ok;
  };
  const { access_token, refresh_token } = kept.tokens;
  // The refresh token is revoked first, because most servers then revoke both.
  const isRefreshRevoked = refresh_token === undefined || (await revoke(refresh_token, "refresh_token"));
  return (await revoke(access_token, "access_token")) && isRefreshRevoked;
}
