import { redact } from "@toolrack/core";
import { isRecord } from "../../../json/is-record.ts";
import { secretArguments } from "./secret-arguments.ts";

/** Stands for a value of which nothing is shown. */
export const HIDDEN = "[hidden]";

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

function withoutSecrets(args: readonly unknown[]): unknown[] {
  const secrets = secretArguments(args);
  return args.map((argument, index) => {
    const { start } = secrets.find((secret) => secret.index === index) ?? {};
    if (start === undefined) return argument;
    if (typeof argument !== "string") return hidden(argument);
    return `${argument.slice(0, start)}${hidden(argument.slice(start))}`;
  });
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
  return isReference ? value : HIDDEN;
}
