import { redact } from "@toolrack/core";
import { isSecretName } from "./is-secret-name.ts";
import { isSecretParameter } from "./is-secret-parameter.ts";
import { basics, type ResolvedEntry } from "./resolve-entry.ts";
import { secretArguments } from "./secret-arguments.ts";
import type { ServerEntry } from "./server-entry.ts";

/** A shorter value stands in other texts by chance. */
const SHORTEST = 6;
/** Settings of a few words, such as `production`, `us-east-1` or `Europe/Berlin`, are no longer than that. */
const LONGEST_WORDS = 14;

/** Headers that say what is sent, and never who sends it. */
const plainHeader = /^(?:accept(?:-.*)?|content-.*|user-agent|connection|host|cache-control)$/i;

/** What a value that is named neutrally may be without being a secret. */
const settings = {
  words: /^[A-Za-z]+(?:[ _.,:/-][A-Za-z0-9]{1,9})*$/,
  number: /^[\d.,:_-]+$/,
  path: /^(?:[~.]{0,2}[\\/]|[A-Za-z]:[\\/])/,
  address: /^[a-z][a-z0-9+.-]*:\/\//i,
  host: /^(?:[\w.+-]+@)?[a-z0-9-]{1,24}(?:\.[a-z0-9-]{1,24})*\.[a-z]{2,10}(?::\d+)?$/,
} as const;

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
  if (!isSecretName(name) && isSetting(value)) return;
  const [, scheme = "", token = value] = /^(bearer|basic|token|api-?key) +(\S+)$/i.exec(value) ?? [];
  found.add(token);
  if (scheme.toLowerCase() === "basic") found.add(passwordIn(token));
}

/** Behind the user and a colon. */
function passwordIn(basic: string): string {
  return Buffer.from(basic, "base64")
    .toString()
    .replace(/^[^:]*:/, "");
}

function isSetting(value: string): boolean {
  const { words, ...others } = settings;
  if (value.length <= LONGEST_WORDS && words.test(value)) return true;
  return Object.values(others).some((form) => form.test(value));
}
