import { redact } from "@toolrack/core";
import { isRecord } from "../../../json/is-record.ts";

/** An entry as anybody may see it, with the values of its secrets replaced. */
export function shownEntry(entry: unknown): object {
  // A copy of an object is one.
  return redact(masked(entry)) as object;
}

/** A word and references, such as `Bearer ${secret:NAME}`; a default inside one would be a value again. */
const reference = /^(?:\w+ )?(?:\$\{[\w:.-]+\})+$/;

/**
 * Values of variables and headers may be secrets that somebody wrote down in clear; a reference to one is none. An entry
 * that is not valid may hold anything, and is shown as far as it has the form of one.
 */
function masked(entry: unknown): object {
  if (!isRecord(entry)) return {};
  const { env, headers, toolrack } = entry;
  return {
    ...entry,
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

function hidden(value: unknown): unknown {
  if (isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, hidden(inner)]));
  }
  const isReference = typeof value === "string" && reference.test(value) && !value.includes(":-");
  return isReference ? value : "[hidden]";
}
