import type { JsonSchemaObject } from "@toolrack/core";
import { UsageError } from "./usage-error.ts";

/** What `usage` may say beside `parameters`. */
export interface UsageSettings {
  /** Arguments that are always these, whatever the caller says. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Arguments for a caller who says nothing. */
  readonly defaults: Readonly<Record<string, unknown>>;
  /** Milliseconds for the whole run. */
  readonly timeout?: number;
  /** `http`: headers of every request. `{{secret:NAME}}` stands for a secret. */
  readonly headers: Readonly<Record<string, string>>;
  /** `http`: most bytes of an answer that are read. */
  readonly maxBytes?: number;
  /** `script`: its environment. `{{secret:NAME}}` stands for a secret. */
  readonly environment: Readonly<Record<string, string>>;
  /** `script`: hosts that it may reach. */
  readonly hosts: readonly string[];
  /** `script`: the parameter whose members become arguments of the command line. */
  readonly argv?: string;
  /** `script`: `text` takes what it prints as it is, instead of JSON. */
  readonly output?: "json" | "text";
  readonly dangerous?: boolean;
  readonly confirm?: string;
  readonly readOnly?: boolean;
  readonly idempotent?: boolean;
  readonly permissions?: readonly string[];
  readonly tags?: readonly string[];
}

interface Kind {
  readonly expected: string;
  fits(value: unknown): boolean;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const anyObject: Kind = { expected: "an object", fits: isObject };
const text: Kind = { expected: "a text", fits: (value) => typeof value === "string" && value !== "" };
const truth: Kind = { expected: "true or false", fits: (value) => typeof value === "boolean" };
const texts: Kind = {
  expected: "a list of texts",
  fits: (value) => Array.isArray(value) && value.every((member) => typeof member === "string"),
};
const textMap: Kind = {
  expected: "an object of texts",
  fits: (value) => isObject(value) && Object.values(value).every((member) => typeof member === "string"),
};
const environment: Kind = {
  expected: "an object of texts, whose names are letters, digits and _",
  fits: (value) =>
    textMap.fits(value) && Object.keys(value as object).every((name) => /^[A-Za-z_]\w*$/.test(name)),
};

function wholeUpTo(most: number): Kind {
  return {
    expected: `a whole number from 1 to ${most}`,
    fits: (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most,
  };
}

const kinds: Readonly<Record<keyof UsageSettings, Kind>> = {
  arguments: anyObject,
  defaults: anyObject,
  timeout: wholeUpTo(600_000),
  headers: textMap,
  maxBytes: wholeUpTo(10 * 1024 * 1024),
  environment,
  hosts: texts,
  argv: text,
  output: { expected: '"json" or "text"', fits: (value) => value === "json" || value === "text" },
  dangerous: truth,
  confirm: text,
  readOnly: truth,
  idempotent: truth,
  permissions: texts,
  tags: texts,
};

export function isUsageSetting(name: string): boolean {
  return Object.hasOwn(kinds, name);
}

/** Throws `UsageError` that names the setting. */
export function readUsageSettings(given: JsonSchemaObject): UsageSettings {
  for (const [name, value] of Object.entries(given)) {
    if (!isUsageSetting(name)) {
      const known = Object.keys(kinds).join(", ");
      throw new UsageError(`usage has an unknown setting "${name}". Beside parameters there are: ${known}.`);
    }
    const { expected, fits } = kinds[name as keyof UsageSettings];
    if (!fits(value)) throw new UsageError(`usage.${name} must be ${expected}.`);
  }
  // Checked just now.
  return { arguments: {}, defaults: {}, headers: {}, environment: {}, hosts: [], ...given } as UsageSettings;
}
