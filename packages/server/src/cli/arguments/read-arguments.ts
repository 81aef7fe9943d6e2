import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { usageError } from "../cli-error.ts";

/** The object behind an option such as `--args`: JSON itself, `@FILE`, or `-` for standard input. */
export async function readArguments(given: string, option = "--args"): Promise<Record<string, unknown>> {
  const { source, name } = await load(given, option);
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (thrown) {
    throw usageError(`${name} is not JSON: ${(thrown as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw usageError(`${name} must be one JSON object with the arguments, such as {"path": "README.md"}.`);
  }
  return value as Record<string, unknown>;
}

async function load(given: string, option: string): Promise<{ source: string; name: string }> {
  if (given === "-") return { source: await text(process.stdin), name: "The standard input" };
  if (!given.startsWith("@")) return { source: given, name: `The text of ${option}` };
  const path = given.slice(1);
  try {
    return { source: await readFile(path, "utf8"), name: `The file ${path}` };
  } catch (thrown) {
    throw usageError(`${option} names a file that cannot be read: ${(thrown as Error).message}`);
  }
}
