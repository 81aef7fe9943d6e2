import {
  assertSecureTokenEndpoint,
  type OAuthMetadata,
  type StoredOAuthClientInformation,
  selectClientAuthMethod,
} from "@modelcontextprotocol/client";
import { type OAuthFetch, oauthFetchFor } from "./oauth-fetch.ts";
import type { SignInTarget } from "./oauth-flow.ts";
import { configuredClient } from "./oauth-settings.ts";
import type { KeptSignIn } from "./sign-in-vault.ts";

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
