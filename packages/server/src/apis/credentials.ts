import { type AddressRules, openUrl, parseJson, readResponse, withTimeLimit } from "../access/index.ts";
import { asRecord, unlessAborted } from "../helpers/index.ts";
import type { ApiDocument } from "./document.ts";
import { attempt, type DeclaredParameter, isHeaderName, text } from "./parameters.ts";
import type { DocumentSchemas } from "./schemas.ts";

type Members = Readonly<Record<string, unknown>>;

/** One way to sign a request, by the name of its scheme in the description. */
export type SecurityScheme =
  | { readonly kind: "apiKey"; readonly place: "header" | "query" | "cookie"; readonly name: string }
  | { readonly kind: "bearer" | "basic" }
  | {
      readonly kind: "oauth2";
      /** Where a machine is given its tokens. */
      readonly tokenUrl?: string | undefined;
      /** Where a person signs in, and where the tokens of that are given. */
      readonly person?: {
        readonly authorizationUrl: string | undefined;
        readonly tokenUrl: string | undefined;
      };
    }
  | { readonly kind: "unknown"; readonly text: string };

/**
 * What an operation needs: scopes by the names of schemes. All of one member are needed together; one member is enough.
 * Empty: nothing is needed.
 */
export type Security = readonly ReadonlyMap<string, readonly string[]>[];

/** A key, token or `user:password`; what a machine signs in with; or the sign-in of a person. */
export type Credential =
  | { readonly kind: "text"; readonly value: string }
  | {
      readonly kind: "person";
      /** Rejects when nobody has signed in. */
      token(): Promise<string>;
      /** To be called when the API refused the token. Returns whether another may be got without a person. */
      refuse(token: string): boolean;
    }
  | {
      readonly kind: "client";
      readonly clientId: string;
      readonly clientSecret: string;
      readonly tokenUrl?: string | undefined;
      readonly scope?: string | undefined;
    };

/** Credentials by the names of the description's security schemes. */
export type Credentials = ReadonlyMap<string, Credential>;

/** The schemes of a description, by their names. */
export function readSchemes(
  { root, place }: ApiDocument,
  schemas: DocumentSchemas,
): Map<string, SecurityScheme> {
  const given = Object.entries(asRecord(asRecord(root.components).securitySchemes));
  // A relative address is taken from that of the description.
  const base = place.kind === "address" ? place.url : undefined;
  return new Map(
    given.map(([name, scheme]) => [name, schemeOf(asRecord(attempt(() => schemas.resolve(scheme))), base)]),
  );
}

function schemeOf({ type, in: place, name, scheme, flows }: Members, base: URL | undefined): SecurityScheme {
  if (
    type === "apiKey" &&
    typeof name === "string" &&
    name !== "" &&
    (place === "query" || place === "cookie" || (place === "header" && isHeaderName(name)))
  )
    return { kind: "apiKey", place, name };
  const word = text(scheme).toLowerCase();
  if (type === "http" && (word === "bearer" || word === "basic")) return { kind: word };
  if (type === "oauth2" || type === "openIdConnect") {
    const { clientCredentials, authorizationCode } = asRecord(flows);
    const address = (given: unknown) => URL.parse(text(given), base)?.href;
    const { authorizationUrl, tokenUrl } = asRecord(authorizationCode);
    return {
      kind: "oauth2",
      tokenUrl: address(asRecord(clientCredentials).tokenUrl),
      person: { authorizationUrl: address(authorizationUrl), tokenUrl: address(tokenUrl) },
    };
  }
  return { kind: "unknown", text: [text(type), word].filter(Boolean).join(" ") || "without a type" };
}

/** What `security` of a description or an operation asks for. To sign is tried before not to sign, where both will do. */
export function readSecurity(given: unknown): Security {
  const needs = (Array.isArray(given) ? given : []).map((one) => {
    const schemes = Object.entries(asRecord(one));
    return new Map(schemes.map(([name, scopes]) => [name, Array.isArray(scopes) ? scopes.map(String) : []]));
  });
  return needs.sort((one, other) => Number(one.size === 0) - Number(other.size === 0));
}

/** Whether the parameter only carries a credential: a model must not be asked for it. */
export function isCredential(
  { name, place }: Pick<DeclaredParameter, "name" | "place">,
  security: Security,
  schemes: ReadonlyMap<string, SecurityScheme>,
): boolean {
  return security
    .flatMap((needs) => [...needs.keys()])
    .some((key) => {
      const scheme = schemes.get(key);
      if (scheme?.kind !== "apiKey" || scheme.place !== place) return false;
      return place === "header" ? scheme.name.toLowerCase() === name.toLowerCase() : scheme.name === name;
    });
}

interface Unsigned {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

interface Signed extends Unsigned {
  /** The credentials that were used, each with what was sent. */
  readonly used: ReadonlyMap<Credential, string>;
}

interface Reach {
  readonly rules: AddressRules;
  readonly signal: AbortSignal;
  /** Masks a value everywhere from now on. */
  readonly learn: (value: string) => void;
}

/** Adds the credentials that an operation needs: those of the first way to sign for which all are there. */
export async function sign(
  request: Unsigned,
  security: Security,
  schemes: ReadonlyMap<string, SecurityScheme>,
  credentials: Credentials,
  reach: Reach,
): Promise<Signed> {
  const needed = security.find((needs) => [...needs.keys()].every((name) => credentials.has(name)));
  const used = new Map<Credential, string>();
  const url = new URL(request.url);
  const headers: Record<string, string> = { ...request.headers };
  for (const name of needed?.keys() ?? []) {
    const scheme = schemes.get(name);
    const credential = credentials.get(name);
    if (scheme === undefined || scheme.kind === "unknown" || credential === undefined) continue;
    const value = await tokenOrKey(credential, scheme, reach);
    used.set(credential, value);
    if (scheme.kind !== "apiKey") headers.authorization = authorization(scheme, value);
    else if (scheme.place === "header") headers[scheme.name.toLowerCase()] = value;
    else if (scheme.place === "query") url.search = withPair(url.search, scheme.name, value);
    else
      headers.cookie = [headers.cookie, `${scheme.name}=${encodeURIComponent(value)}`]
        .filter(Boolean)
        .join("; ");
  }
  return { url, headers, used };
}

async function tokenOrKey(credential: Credential, scheme: SecurityScheme, reach: Reach): Promise<string> {
  if (credential.kind === "text") return credential.value;
  if (credential.kind === "client") return tokenFor(credential, scheme, reach);
  return orAborted(credential.token(), reach.signal);
}

/** Forgets the tokens of a request after they were refused. Returns whether others can be asked for. */
export function forgetTokens(used: Signed["used"]): boolean {
  const outcomes = [...used].map(([credential, value]) =>
    credential.kind === "person" ? credential.refuse(value) : tokens.delete(credential),
  );
  return outcomes.includes(true);
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
