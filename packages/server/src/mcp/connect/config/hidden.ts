import { isDeepStrictEqual } from "node:util";
import { redact } from "@toolrack/core/internal";
import { isRecord } from "../../../helpers/index.ts";
import type { ServerEntry } from "./entry.ts";
import { basics, type ResolvedEntry } from "./resolve-entry.ts";

/** Stands for a value of which nothing is shown. */
const HIDDEN = "[hidden]";

/** An entry as anybody may see it, with the values of its secrets replaced. */
export function shownEntry(entry: unknown): object {
  // A copy of an object is one.
  return redact(masked(entry)) as object;
}

/** A word and references, such as `Bearer ${secret:NAME}`; a default inside one would be a value again. */
const reference = /^(?:\w+ )?(?:\$\{[\w:.-]+\})+$/;

/**
 * Values of variables and headers may be secrets that somebody wrote down in clear, and so may arguments that are named
 * like secrets; a reference to one is none. An entry that is not valid may hold anything, and is shown as far as it has
 * the form of one.
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
 * An entry that somebody was shown, changed and sent back, with the values in it that were hidden from them. `before` is
 * the entry as it is kept; undefined for a new one. Throws an `Error` that names a key whose placeholder stands for
 * nothing, and would be used as the value, or for one of several.
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
 * Where an item stood in the list that was shown; -1 when it stood nowhere, or nobody can tell where. Items may have been
 * added, moved or taken away, and two secrets that look alike must not take each other's place.
 */
function placeOf(given: readonly unknown[], index: number, shown: unknown): number {
  const item = given[index];
  if (!Array.isArray(shown) || typeof item !== "string" || !placeholder.test(item)) return index;
  // Everything is where it was, and at most something was added behind it.
  if (isDeepStrictEqual(given.slice(0, shown.length), shown)) return index;
  const places = shown.flatMap((other, place) => {
    // A value of which nothing is shown is that of the option before it.
    const isIt = other === item && (item !== HIDDEN || shown[place - 1] === given[index - 1]);
    return isIt ? [place] : [];
  });
  return places.length === 1 ? (places[0] ?? -1) : -1;
}

function member(holder: unknown, key: string | number): unknown {
  if (Array.isArray(holder)) return holder[Number(key)];
  return isRecord(holder) && Object.hasOwn(holder, key) ? holder[key] : undefined;
}

/** A shorter value stands in other texts by chance. */
const SHORTEST = 6;
/** Settings of a few words, such as `production`, `us-east-1` or `Europe/Berlin`, are no longer than that. */
const LONGEST_WORDS = 14;

/** Headers that say what is sent, and never who sends it. */
const plainHeader = /^(?:accept(?:-.*)?|content-.*|user-agent|connection|host|cache-control)$/i;

/** What a value that is named neutrally may be without being a secret: words, a number, a path, an address, a host. */
const words = /^[A-Za-z]+(?:[ _.,:/-][A-Za-z0-9]{1,9})*$/;
const settings = [
  /^[\d.,:_-]+$/,
  /^(?:[~.]{0,2}[\\/]|[A-Za-z]:[\\/])/,
  /^[a-z][a-z0-9+.-]*:\/\//i,
  /^(?:[\w.+-]+@)?[a-z0-9-]{1,24}(?:\.[a-z0-9-]{1,24})*\.[a-z]{2,10}(?::\d+)?$/,
];

/**
 * The values of an entry that may be credentials, whether they were written down in clear or came from a variable. They
 * are masked wherever they would show, so what is plainly a setting is not among them: every result that has the word
 * `production` in it would be spoilt.
 */
export function credentialsIn(resolved: ResolvedEntry, { toolrack }: ServerEntry): string[] {
  const found = new Set<string>();
  if (resolved.kind === "process") {
    const { env, command, args } = resolved;
    redact([command, args], { found });
    for (const { index, name, start } of secretArguments(args)) {
      take(name, args[index]?.slice(start) ?? "", found);
    }
    for (const [name, value] of Object.entries(env)) if (!basics.includes(name)) take(name, value, found);
  } else {
    for (const [name, value] of Object.entries(resolved.headers)) {
      if (!plainHeader.test(name)) take(name, value, found);
    }
    for (const [name, value] of resolved.url.searchParams) if (isSecretParameter(name)) found.add(value);
  }
  const { clientSecret } = toolrack?.oauth ?? {};
  if (clientSecret !== undefined && !clientSecret.includes("${")) found.add(clientSecret);
  return [...found].filter((value) => value.length >= SHORTEST);
}

function take(name: string, value: string, found: Set<string>): void {
  // Passwords inside addresses, and what stands behind the name of a scheme.
  redact(value, { found });
  const isWords = value.length <= LONGEST_WORDS && words.test(value);
  if (!isSecretName(name) && (isWords || settings.some((form) => form.test(value)))) return;
  const [, scheme = "", token = value] = /^(bearer|basic|token|api-?key) +(\S+)$/i.exec(value) ?? [];
  found.add(token);
  if (scheme.toLowerCase() !== "basic") return;
  const pair = Buffer.from(token, "base64").toString();
  found.add(pair.replace(/^[^:]*:/, ""));
}

/** The part of an argument whose name says that it is a secret. */
interface SecretArgument {
  /** Which of the arguments. */
  readonly index: number;
  readonly name: string;
  /** Where in the argument the value begins. */
  readonly start: number;
}

/** `--name=`, `NAME=`, `Name: ` or `Name:`, before a value. In small letters the last one may be a scope (`auth:read`). */
const assignment = /^(?:-{0,2}([\w.-]+)(?:=|: )|([A-Z][\w-]*):)(?=.)/s;
const option = /^--?([\w.-]+)$/;
/** What follows such an option is no value of it. */
const withoutValue = /^(?:no|without|disable|enable|skip)-/;
/** The next option, and not a value that begins with a dash by chance. */
const nextOption = /^(?:--[A-Za-z]|-[A-Za-z](?:=|$)|-[a-z-]+(?:=|$))/;

/**
 * In their order. One argument may be secret as a whole and hold a secret: `--auth-header "X-Api-Key: …"`. Of an entry that
 * is not valid, arguments may be anything.
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

/** Also in a value: `--header=X-Api-Key: …`, `--env=API_KEY=…`. */
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

/** The option whose value the argument is. */
function optionBefore(args: readonly unknown[], index: number): string | undefined {
  const [before, argument] = [args[index - 1], args[index]];
  if (typeof before !== "string") return undefined;
  if (typeof argument === "string" && nextOption.test(argument)) return undefined;
  const [, name] = option.exec(before) ?? [];
  return name !== undefined && !withoutValue.test(name) && isSecretName(name) ? name : undefined;
}

/** Whether what has such a name is kept out of records, too. */
export function isSecretName(name: string): boolean {
  return !isDeepStrictEqual(redact({ [name]: "text" }), { [name]: "text" });
}

/** Whether what stands behind such a name in the query of an address is a secret. */
export function isSecretParameter(name: string): boolean {
  const text = `?${encodeURIComponent(name)}=text`;
  return redact(text) !== text;
}
