import type { StoredOAuthClientInformation } from "@modelcontextprotocol/client";
import { expand, type Surroundings } from "../config/expand.ts";
import type { OAuthEntry } from "../config/server-entry.ts";

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
