import { type AddressRules, openUrl, parseJson, readResponse, withTimeLimit } from "../access/index.ts";
import { asRecord, unlessAborted } from "../helpers/index.ts";
import type { SecurityScheme } from "./operations.ts";

/** A key, token or `user:password`; or what a machine signs in with. */
export type Credential =
  | { readonly kind: "text"; readonly value: string }
  | {
      readonly kind: "client";
      readonly clientId: string;
      readonly clientSecret: string;
      readonly tokenUrl?: string | undefined;
      readonly scope?: string | undefined;
    };

/** Credentials by the names of the description's security schemes. */
export type Credentials = ReadonlyMap<string, Credential>;

interface Signed {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

interface Reach {
  readonly rules: AddressRules;
  readonly signal: AbortSignal;
  /** Masks a value everywhere from now on. */
  readonly learn: (value: string) => void;
}

/**
 * Adds the credentials that an operation needs. `security`: lists of schemes, of which one is enough; the first for which
 * all credentials are there is used, and none if there is no such list.
 */
export async function sign(
  request: Signed,
  security: readonly (readonly string[])[],
  schemes: ReadonlyMap<string, SecurityScheme>,
  credentials: Credentials,
  reach: Reach,
): Promise<Signed> {
  const needed = neededBy(security, credentials);
  const url = new URL(request.url);
  const headers: Record<string, string> = { ...request.headers };
  for (const name of needed) {
    const scheme = schemes.get(name);
    const credential = credentials.get(name);
    if (scheme === undefined || scheme.kind === "unknown" || credential === undefined) continue;
    const value = credential.kind === "text" ? credential.value : await tokenFor(credential, scheme, reach);
    if (scheme.kind !== "apiKey") headers.authorization = authorization(scheme, value);
    else if (scheme.place === "header") headers[scheme.name.toLowerCase()] = value;
    else if (scheme.place === "query") url.search = withPair(url.search, scheme.name, value);
    else
      headers.cookie = [headers.cookie, `${scheme.name}=${encodeURIComponent(value)}`]
        .filter(Boolean)
        .join("; ");
  }
  return { url, headers };
}

function neededBy(security: readonly (readonly string[])[], credentials: Credentials): readonly string[] {
  return security.find((names) => names.every((name) => credentials.has(name))) ?? [];
}

/** Forgets the tokens of an operation after they were refused. Returns whether others can be asked for. */
export function forgetTokens(security: readonly (readonly string[])[], credentials: Credentials): boolean {
  const used = neededBy(security, credentials).flatMap((name) => credentials.get(name) ?? []);
  return used.map((credential) => tokens.delete(credential)).includes(true);
}

/** The query with the pair in place of others of its name. The rest stays as it is, down to the letter. */
function withPair(search: string, name: string, value: string): string {
  const own = encodeURIComponent(name);
  const others = search
    .slice(1)
    .split("&")
    .filter((pair) => pair !== "" && pair.split("=", 1)[0] !== own);
  return [...others, `${own}=${encodeURIComponent(value)}`].join("&");
}

function authorization({ kind }: SecurityScheme, value: string): string {
  if (kind !== "basic") return `Bearer ${value}`;
  return `Basic ${value.includes(":") ? Buffer.from(value).toString("base64") : value}`;
}

/** How long before its end a token is replaced, in milliseconds. */
const EARLY = 30_000;
const USUAL_LIFE = 5 * 60_000;

const tokens = new WeakMap<object, { readonly value: Promise<string>; endsAt: number }>();

/** The access token of a machine. It is asked for once, and again before it ends. */
function tokenFor(
  credential: Credential & { kind: "client" },
  scheme: SecurityScheme,
  reach: Reach,
): Promise<string> {
  const known = tokens.get(credential);
  if (known !== undefined && known.endsAt > Date.now()) return orAborted(known.value, reach.signal);
  const entry = { value: Promise.resolve(""), endsAt: Date.now() + USUAL_LIFE };
  // Other calls wait for the same token, so the end of this one must not end the request for it.
  const { signal } = new AbortController();
  const asked = askForToken(credential, scheme, { ...reach, signal }).then(({ value, life }) => {
    reach.learn(value);
    entry.endsAt = Date.now() + life - EARLY;
    return value;
  });
  Object.assign(entry, { value: asked });
  tokens.set(credential, entry);
  asked.catch(() => tokens.delete(credential));
  return orAborted(asked, reach.signal);
}

async function orAborted(token: Promise<string>, signal: AbortSignal): Promise<string> {
  await unlessAborted(token, signal);
  return token;
}

async function askForToken(
  { clientId, clientSecret, tokenUrl, scope }: Credential & { kind: "client" },
  scheme: SecurityScheme,
  { rules, signal }: Reach,
): Promise<{ readonly value: string; readonly life: number }> {
  const address = tokenUrl ?? (scheme.kind === "oauth2" ? scheme.tokenUrl : undefined);
  if (address === undefined)
    throw new Error(
      "The description does not say where its tokens come from. Write tokenUrl into the API's auth.",
    );
  const body = new URLSearchParams({
    grant_type: "client_credentials",
    ...(scope !== undefined && { scope }),
  }).toString();
  const login = Buffer.from(`${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`).toString(
    "base64",
  );
  return withTimeLimit(new URL(address).host, 30_000, signal, async (limited) => {
    const opened = await openUrl({
      url: address,
      method: "POST",
      headers: {
        accept: "application/json",
        authorization: `Basic ${login}`,
        "content-type": "application/x-www-form-urlencoded",
        "content-length": String(Buffer.byteLength(body)),
      },
      body,
      followRedirects: false,
      rules,
      signal: limited,
    });
    const { bytes } = await readResponse(opened, 1024 * 1024, limited);
    const { access_token, expires_in, error } = asRecord(parseJson(bytes.toString("utf8")));
    if (opened.status !== 200 || typeof access_token !== "string") {
      const why = typeof error === "string" ? `: ${error}` : "";
      throw new Error(`${new URL(address).origin} gave no access token: it answered ${opened.status}${why}.`);
    }
    return { value: access_token, life: typeof expires_in === "number" ? expires_in * 1_000 : USUAL_LIFE };
  });
}
