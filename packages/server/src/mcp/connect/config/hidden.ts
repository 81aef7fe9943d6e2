import { isDeepStrictEqual } from "node:util";
import { redact } from "@toolrack/core/internal";
import { isRecord } from "../../../helpers/index.ts";
import type { ServerEntry } from "./entry.ts";
import { basics, type ResolvedEntry } from "./resolve-entry.ts";

/** Shown in place of a secret value. */
const HIDDEN = "[hidden]";

/** An entry with its secret values replaced, so that anybody may see it. */
export function shownEntry(entry: unknown): object {
  // `redact` returns a copy of the same shape.
  return redact(masked(entry)) as object;
}

/** An optional word and references, such as `Bearer ${secret:NAME}`. A default is not allowed: it would be a value. */
const reference = /^(?:\w+ )?(?:\$\{[\w:.-]+\})+$/;

/**
 * Hides values that may be secrets in plain text: those of variables and headers, and arguments with secret names.
 * References to secrets are shown. An invalid entry may have any shape, so every part is checked.
 */
function masked(entry: unknown): object {
  if (!isRecord(entry)) return {};
  const { args, env, headers, toolrack } = entry;
  return {
    ...entry,
    ...(args === undefined ? {} : { args: Array.isArray(args) ? withoutSecrets(args) : hidden(args) }),
    ...(env === undefined ? {} : { env: hidden(env) }),
    ...(headers === undefined ? {} : { headers: hidden(headers) }),
    ...(isRecord(toolrack) && toolrack.oauth !== undefined
      ? { toolrack: { ...toolrack, oauth: withoutSecret(toolrack.oauth) } }
      : {}),
  };
}

function withoutSecret(oauth: unknown): unknown {
  if (!isRecord(oauth)) return hidden(oauth);
  const { clientSecret, ...rest } = oauth;
  return clientSecret === undefined ? rest : { ...rest, clientSecret: hidden(clientSecret) };
}

function withoutSecrets(args: readonly unknown[]): unknown[] {
  const secrets = secretArguments(args);
  return args.map((argument, index) => {
    const { start } = secrets.find((secret) => secret.index === index) ?? {};
    if (start === undefined) return argument;
    if (typeof argument !== "string") return hidden(argument);
    return `${argument.slice(0, start)}${hidden(argument.slice(start))}`;
  });
}

function hidden(value: unknown): unknown {
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
  if (typeof given === "string") {
    if (!placeholder.test(given)) return given;
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
  return Object.fromEntries(
    Object.entries(given).map(([key, value]) => [
      key,
      restored(value, member(shown, key), member(kept, key), path === "" ? key : `${path}.${key}`),
    ]),
  );
}

/**
 * The index of an item in the list that was shown; -1 when it was not there, or that is ambiguous. Items may have been
 * added, moved or removed, and two secrets that look alike must not be mixed up.
 */
function placeOf(given: readonly unknown[], index: number, shown: unknown): number {
  const item = given[index];
  if (!Array.isArray(shown) || typeof item !== "string" || !placeholder.test(item)) return index;
  // The list is unchanged, or items were only added at its end.
  if (isDeepStrictEqual(given.slice(0, shown.length), shown)) return index;
  const places = shown.flatMap((other, place) => {
    // A completely hidden value is identified by the option before it.
    const isIt = other === item && (item !== HIDDEN || shown[place - 1] === given[index - 1]);
    return isIt ? [place] : [];
  });
  return places.length === 1 ? (places[0] ?? -1) : -1;
}

function member(holder: unknown, key: string | number): unknown {
  if (Array.isArray(holder)) return holder[Number(key)];
  return isRecord(holder) && Object.hasOwn(holder, key) ? holder[key] : undefined;
}

/** Shorter values occur in other texts by chance, so they are not masked. */
const SHORTEST = 6;
/** The longest setting made of words, such as `production`, `us-east-1` or `Europe/Berlin`. */
const LONGEST_WORDS = 14;

/** Headers that never hold credentials. */
const plainHeader = /^(?:accept(?:-.*)?|content-.*|user-agent|connection|host|cache-control)$/i;

/** Values that are no secrets if their name does not say so: words, numbers, paths, addresses, hosts. */
const words = /^[A-Za-z]+(?:[ _.,:/-][A-Za-z0-9]{1,9})*$/;
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
export function credentialsIn(resolved: ResolvedEntry, { toolrack }: ServerEntry): string[] {
  const found = new Set<string>();
  if (resolved.kind === "process") {
    const { env, command, args } = resolved;
    redact([command, args], { found });
    for (const { index, name, start } of secretArguments(args)) {
      addCredentials(name, args[index]?.slice(start) ?? "", found);
    }
    for (const [name, value] of Object.entries(env))
      if (!basics.includes(name)) addCredentials(name, value, found);
  } else {
    for (const [name, value] of Object.entries(resolved.headers)) {
      if (!plainHeader.test(name)) addCredentials(name, value, found);
    }
    for (const [name, value] of resolved.url.searchParams) if (isSecretParameter(name)) found.add(value);
  }
  const { clientSecret } = toolrack?.oauth ?? {};
  if (clientSecret !== undefined && !clientSecret.includes("${")) found.add(clientSecret);
  return [...found].filter((value) => value.length >= SHORTEST);
}

function addCredentials(name: string, value: string, found: Set<string>): void {
  // Finds passwords inside addresses, and tokens after the name of a scheme.
  redact(value, { found });
  const isWords = value.length <= LONGEST_WORDS && words.test(value);
  if (!isSecretName(name) && (isWords || settings.some((form) => form.test(value)))) return;
  const [, scheme = "", token = value] = /^(bearer|basic|token|api-?key) +(\S+)$/i.exec(value) ?? [];
  found.add(token);
  if (scheme.toLowerCase() !== "basic") return;
  const pair = Buffer.from(token, "base64").toString();
  found.add(pair.replace(/^[^:]*:/, ""));
}

/** An argument, or a part of one, whose name says that it is a secret. */
interface SecretArgument {
  /** The position among the arguments. */
  readonly index: number;
  readonly name: string;
  /** Where in the argument the value begins. */
  readonly start: number;
}

/** `--name=`, `NAME=`, `Name: ` or `Name:` before a value. `name:` in lower case may be a scope (`auth:read`), so it does not count. */
const assignment = /^(?:-{0,2}([\w.-]+)(?:=|: )|([A-Z][\w-]*):)(?=.)/s;
const option = /^--?([\w.-]+)$/;
/** Options that take no value. */
const withoutValue = /^(?:no|without|disable|enable|skip)-/;
/** Matches an option, but not a value that happens to begin with a dash. */
const nextOption = /^(?:--[A-Za-z]|-[A-Za-z](?:=|$)|-[a-z-]+(?:=|$))/;

/**
 * In the order of the arguments. An argument may be a secret and also contain one: `--auth-header "X-Api-Key: …"`. In an
 * invalid entry, arguments may have any type.
 */
function secretArguments(args: readonly unknown[]): SecretArgument[] {
  return args.flatMap((argument, index) => {
    const name = optionBefore(args, index);
    const value = typeof argument === "string" ? valueIn(argument) : undefined;
    return [
      ...(name === undefined ? [] : [{ index, name, start: 0 }]),
      ...(value === undefined ? [] : [{ index, ...value }]),
    ];
  });
}

/** Finds a secret inside an argument, also nested: `--header=X-Api-Key: …`, `--env=API_KEY=…`. */
function valueIn(argument: string): Pick<SecretArgument, "name" | "start"> | undefined {
  let start = 0;
  for (;;) {
    const found = assignment.exec(argument.slice(start));
    if (found === null) return undefined;
    const [whole, variable, header = ""] = found;
    const name = variable ?? header;
    start += whole.length;
    if (isSecretName(name)) return { name, start };
  }
}

/** The secret option whose value this argument is. */
function optionBefore(args: readonly unknown[], index: number): string | undefined {
  const [before, argument] = [args[index - 1], args[index]];
  if (typeof before !== "string") return undefined;
  if (typeof argument === "string" && nextOption.test(argument)) return undefined;
  const [, name] = option.exec(before) ?? [];
  return name !== undefined && !withoutValue.test(name) && isSecretName(name) ? name : undefined;
}

/** Whether values with this name are redacted. */
export function isSecretName(name: string): boolean {
  return !isDeepStrictEqual(redact({ [name]: "text" }), { [name]: "text" });
}

/** Whether a query parameter with this name holds a secret. */
export function isSecretParameter(name: string): boolean {
  const text = `?${encodeURIComponent(name)}=text`;
  return redact(text) !== text;
}
