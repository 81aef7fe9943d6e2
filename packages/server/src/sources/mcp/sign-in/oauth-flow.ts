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
import { joinScopes } from "./join-scopes.ts";
import { type OAuthFetch, oauthFetchFor } from "./oauth-fetch.ts";
import { configuredClient, type OAuthSettings } from "./oauth-settings.ts";
import { SignInProvider } from "./sign-in-provider.ts";
import type { KeptSignIn } from "./sign-in-vault.ts";

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
