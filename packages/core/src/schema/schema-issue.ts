import { describeReceived } from "./describe-received.ts";
import { issuePath } from "./issue-path.ts";
import { nearestKey } from "./nearest-key.ts";
import type { SchemaIssue } from "./types.ts";

/** More than this helps nobody; the first ones are shown. */
export const maximumIssues = 20;

/** An issue in the words all schemas share. `message` replaces the usual sentence with the author's own. */
export function mismatch(
  segments: readonly unknown[],
  expected: string,
  received: unknown,
  message?: string,
): SchemaIssue {
  const path = issuePath(segments);
  const came = describeReceived(received);
  if (message !== undefined) {
    return { path, expected, received: came, message: path === "" ? message : `\`${path}\`: ${message}` };
  }
  return { path, expected, received: came, message: sentence(path, expected, came) };
}

/** A key that the schema does not have. `known` are the keys it has, if they can be told. */
export function unknownKey(
  parent: readonly unknown[],
  key: string,
  value: unknown,
  known: Iterable<string> | undefined,
): SchemaIssue {
  const path = issuePath([...parent, key]);
  const names = known && [...known];
  const nearest = nearestKey(key, names ?? []);
  const hint = nearest === undefined ? listKeys(names) : `did you mean \`${nearest}\`?`;
  return {
    path,
    expected: nearest === undefined ? "no such key" : `no such key, perhaps \`${nearest}\``,
    received: describeReceived(value),
    message: `\`${path}\` is not a known key; ${hint}`,
  };
}

function sentence(path: string, expected: string, received: string): string {
  if (path === "") return `Expected ${expected}, got ${received}.`;
  if (received === "nothing") return `\`${path}\` is missing: expected ${expected}.`;
  return `Expected ${expected} at \`${path}\`, got ${received}.`;
}

function listKeys(names: readonly string[] | undefined): string {
  if (names === undefined) return "leave it out.";
  if (names.length === 0) return "no keys are taken here.";
  const shown = names.slice(0, 10).map((name) => `\`${name}\``);
  return `the keys are ${shown.join(", ")}${names.length > 10 ? ", …" : ""}.`;
}
