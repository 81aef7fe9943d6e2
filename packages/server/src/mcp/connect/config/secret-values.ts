import { isDeepStrictEqual } from "node:util";
import { isSecretName, redact } from "@toolrack/core/internal";
import { defined, isRecord } from "../../../helpers/index.ts";
import { personAuthOf } from "./api-entry.ts";
import type { ServerEntry } from "./entry.ts";
import { isBasic, isNetwork, type ResolvedEntry } from "./resolve-entry.ts";

/** Shown in place of a secret value. */
const HIDDEN = "[hidden]";

/**
 * Returns an entry with its secret values replaced, so that anybody may see it: the values of environment
 * variables and headers, the client secret, and arguments with secret names. References to secrets are shown.
 * An invalid entry may have any shape, so every part is checked.
 */
export function shownEntry(entry: unknown): Readonly<Record<string, unknown>> {
  if (!isRecord(entry)) return {};
  const { args, env, headers, toolrack, api } = entry;
  const parts = { args: Array.isArray(args) ? shownArguments(args) : hidden(args), env: hidden(env) };
  const oauth = isRecord(toolrack) ? { toolrack: { ...toolrack, ...shownOAuth(toolrack.oauth) } } : {};
  const shown = { ...entry, ...defined({ ...parts, headers: hidden(headers) }), ...oauth };
  if (!isRecord(api) || api.auth === undefined) return redact(shown) as typeof shown; // A copy of the same shape.
  // `redact` would take all of `auth` for a secret, because of its name.
  const { auth, ...others } = api;
  const redacted = redact({ ...shown, api: others }) as Readonly<Record<string, object>>; // `redact` keeps the members of an object.
  return { ...redacted, api: { ...redacted.api, auth: shownAuth(auth) } };
}

function shownOAuth(oauth: unknown): object {
  if (!isRecord(oauth)) return defined({ oauth: hidden(oauth) });
  return { oauth: { ...oauth, ...defined({ clientSecret: hidden(oauth.clientSecret) }) } };
}

/** The members of an OAuth client in an API's `auth` that are shown. All others are hidden. */
const plainMembers = ["grant", "clientId", "authorizationUrl", "tokenUrl", "scope", "signIn"];

function shownAuth(auth: unknown): unknown {
  if (!isRecord(auth)) return hidden(auth);
  const shown = Object.entries(auth).map(([name, one]) => {
    const plain = isRecord(one) ? Object.entries(one).filter(([key]) => plainMembers.includes(key)) : [];
    const all = hidden(one);
    const known = redact(Object.fromEntries(plain)) as object; // `redact` keeps the members of an object.
    return [name, isRecord(all) ? { ...all, ...known } : all];
  });
  return Object.fromEntries(shown);
}

function shownArguments(args: readonly unknown[]): unknown[] {
  const secrets = secretArguments(args);
  return args.map((argument, index) => {
    const { start } = secrets.find((secret) => secret.index === index) ?? {};
    if (start === undefined) return argument;
    if (typeof argument !== "string") return hidden(argument);
    return `${argument.slice(0, start)}${hidden(argument.slice(start))}`;
  });
}

/**
 * An optional word and references, such as `Bearer ${secret:NAME}` or `{{caller:NAME}}`. A reference with a default does not match,
 * because the default would show a value.
 */
const reference = /^(?:\w+ )?(?:\$\{[\w:.-]+\}|\{\{\s*caller:\s*\w+\s*\}\})+$/;

function hidden(value: unknown): unknown {
  if (value === undefined) return undefined;
  if (isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, hidden(inner)]));
  }
  const isReference = typeof value === "string" && reference.test(value) && !value.includes(":-");
  return isReference ? value : HIDDEN;
}

const placeholder = /\[(?:hidden|redacted)\]/;

/**
 * Puts hidden values back into an entry that somebody was shown, changed and sent back. `before`: the stored entry;
 * undefined for a new one. Throws an `Error` that names the key when a placeholder matches no hidden value, or several.
 */
export function keepHidden(given: unknown, before: unknown): unknown {
  return restored(given, before === undefined ? undefined : shownEntry(before), before, "");
}

function restored(given: unknown, shown: unknown, kept: unknown, path: string): unknown {
  if (typeof given === "string" && placeholder.test(given)) {
    if (given === shown) return kept;
    throw new Error(
      `${path}: It says ${placeholder.exec(given)?.[0]}, which stands for a value that is not shown, and there is none, or more than one, that it could stand for. Write the value itself, or \${secret:NAME}.`,
    );
  }
  if (Array.isArray(given)) {
    return given.map((item, index) => {
      const at = placeOf(given, index, shown);
      return restored(item, member(shown, at), member(kept, at), `${path}[${index}]`);
    });
  }
  if (!isRecord(given)) return given;
  const members = Object.entries(given).map(([key, value]) => {
    const place = path === "" ? key : `${path}.${key}`;
    return [key, restored(value, member(shown, key), member(kept, key), place)];
  });
  return Object.fromEntries(members);
}

/**
 * The index that an item had in the list that was shown; -1 when the item was not there, or could be one of
 * several. Items may have been added, moved or removed, and two secrets that look alike must not be mixed up.
 */
function placeOf(given: readonly unknown[], index: number, shown: unknown): number {
  const item = given[index];
  if (!Array.isArray(shown) || typeof item !== "string" || !placeholder.test(item)) return index;
  // The list is unchanged, or items were only added at its end.
  if (isDeepStrictEqual(given.slice(0, shown.length), shown)) return index;
  // A completely hidden value is identified by the option before it.
  const isIt = (place: number) =>
    shown[place] === item && (item !== HIDDEN || shown[place - 1] === given[index - 1]);
  const [place = -1, ...others] = [...shown.keys()].filter(isIt);
  return others.length === 0 ? place : -1;
}

function member(holder: unknown, key: string | number): unknown {
  if (Array.isArray(holder)) return holder[Number(key)];
  return isRecord(holder) && Object.hasOwn(holder, key) ? holder[key] : undefined;
}

/** Shorter values occur in other texts by chance, so they are not masked. */
const SHORTEST = 6;
/**
 * A value made of words, such as `production`, `us-east-1` or `Europe/Berlin`, counts as a plain setting up to
 * this length.
 */
const LONGEST_WORDS = 14;

/** Headers that never hold credentials. */
const plainHeader = /^(?:accept(?:-.*)?|content-.*|user-agent|connection|host|cache-control)$/i;

/** Words. A short value of this form is no secret if its name does not say so. */
const words = /^[A-Za-z]+(?:[ _.,:/-][A-Za-z0-9]{1,9})*$/;
/** Numbers, paths, addresses and hosts. A value of these forms is no secret if its name does not say so. */
const settings = [
  /^[\d.,:_-]+$/,
  /^(?:[~.]{0,2}[\\/]|[A-Za-z]:[\\/])/,
  /^[a-z][a-z0-9+.-]*:\/\//i,
  /^(?:[\w.+-]+@)?[a-z0-9-]{1,24}(?:\.[a-z0-9-]{1,24})*\.[a-z]{2,10}(?::\d+)?$/,
];

/**
 * The values of an entry that may be credentials, written in plain text or taken from a variable. They are masked
 * everywhere. Plain settings are not among them: masking the word `production` would spoil every result with that word.
 */
export function credentialsIn(resolved: ResolvedEntry, { toolrack, api }: ServerEntry): string[] {
  const found = new Set<string>();
  const add = (name: string, value: string) => addCredentials(name, value, found);
  if (resolved.kind === "process") {
    const { env, command, args } = resolved;
    redact([command, args], { found });
    for (const { index, name, start } of secretArguments(args)) add(name, args[index]?.slice(start) ?? "");
    for (const [name, value] of Object.entries(env)) {
      // Of an address of a proxy, only the password is a secret.
      if (isNetwork(name)) redact(value, { found });
      else if (!isBasic(name)) add(name, value);
    }
  } else if (resolved.kind === "api") {
    for (const value of Object.values(resolved.auth).flatMap((one) => credentialOf(one))) found.add(value);
    for (const [name, value] of Object.entries(resolved.headers))
      if (!plainHeader.test(name)) add(name, value);
    if (resolved.spec instanceof URL)
      for (const [name, value] of resolved.spec.searchParams) if (isSecretParameter(name)) found.add(value);
  } else {
    const { headers, url } = resolved;
    for (const [name, value] of Object.entries(headers)) if (!plainHeader.test(name)) add(name, value);
    for (const [name, value] of url.searchParams) if (isSecretParameter(name)) found.add(value);
  }
  const { clientSecret = "${" } = toolrack?.oauth ?? personAuthOf({ api })?.client ?? {};
  if (!clientSecret.includes("${")) found.add(clientSecret);
  return [...found].filter((value) => value.length >= SHORTEST);
}

/** The secret parts of a credential of an API: of `user:password`, the password and what is sent for both. */
function credentialOf(given: string | Readonly<Record<string, string>>): string[] {
  if (typeof given !== "string") return [given.clientSecret ?? ""];
  const [, password] = /^[^:]*:(.*)$/s.exec(given) ?? [];
  return password === undefined ? [given] : [given, password, Buffer.from(given).toString("base64")];
}

function addCredentials(name: string, value: string, found: Set<string>): void {
  // Finds passwords inside addresses, and tokens after the name of a scheme.
  redact(value, { found });
  const isWords = value.length <= LONGEST_WORDS && words.test(value);
  if (!isSecretName(name) && (isWords || settings.some((form) => form.test(value)))) return;
  const [, scheme = "", token = value] = /^(bearer|basic|token|api-?key) +(\S+)$/i.exec(value) ?? [];
  found.add(token);
  if (scheme.toLowerCase() === "basic")
    found.add(
      Buffer.from(token, "base64")
        .toString()
        .replace(/^[^:]*:/, ""),
    );
}

/** An argument, or a part of one, whose name says that it is a secret. The value begins at `start`. */
interface SecretArgument {
  readonly index: number;
  readonly name: string;
  readonly start: number;
}

/** `--name=`, `NAME=`, `Name: ` or `Name:` before a value. `name:` in lower case may be a scope (`auth:read`), so it does not count. */
const assignment = /^(?:-{0,2}([\w.-]+)(?:=|: )|([A-Z][\w-]*):)(?=.)/s;
/** An option that takes a value. */
const option = /^--?(?!-?(?:no|without|disable|enable|skip)-)([\w.-]+)$/;
/** Matches an option, but not a value that happens to begin with a dash. */
const nextOption = /^(?:--[A-Za-z]|-[A-Za-z](?:=|$)|-[a-z-]+(?:=|$))/;

/**
 * Finds the secrets in a list of arguments, in its order. An argument may be a secret and also contain one:
 * `--auth-header "X-Api-Key: …"`. In an invalid entry, arguments may have any type.
 */
function secretArguments(args: readonly unknown[]): SecretArgument[] {
  return args.flatMap((argument, index) => {
    const [, name = ""] = option.exec(String(args[index - 1])) ?? [];
    const isValue = !nextOption.test(String(argument)) && isSecretName(name);
    const inner = typeof argument === "string" ? valueIn(argument) : undefined;
    return [...(isValue ? [{ index, name, start: 0 }] : []), ...(inner ? [{ index, ...inner }] : [])];
  });
}

/** Finds a secret inside an argument, also nested: `--header=X-Api-Key: …`, `--env=API_KEY=…`. */
function valueIn(argument: string): Pick<SecretArgument, "name" | "start"> | undefined {
  let start = 0;
  for (;;) {
    const [whole, variable, header = ""] = assignment.exec(argument.slice(start)) ?? [];
    if (whole === undefined) return undefined;
    const name = variable ?? header;
    start += whole.length;
    if (isSecretName(name)) return { name, start };
  }
}

/** Whether a query parameter with this name holds a secret. */
export function isSecretParameter(name: string): boolean {
  const text = `?${encodeURIComponent(name)}=text`;
  return redact(text) !== text;
}
