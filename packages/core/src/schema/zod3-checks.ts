import { escapePattern, writePattern, writeStringFormat } from "./string-format.ts";
import type { Zod3Definition } from "./zod-types.ts";

type Json = Record<string, unknown>;
interface Check {
  readonly kind: string;
  readonly value?: unknown;
  readonly inclusive?: boolean;
  readonly regex?: RegExp;
  readonly version?: string;
}

/** A Zod 3 string and its checks as JSON Schema. */
export function zod3StringChecks(checks: unknown): Json {
  const json: Json = { type: "string" };
  for (const check of checksOf(checks)) {
    if (check.kind === "min" || check.kind === "length") json.minLength = check.value;
    if (check.kind === "max" || check.kind === "length") json.maxLength = check.value;
    else if (check.kind === "regex" && check.regex) writePattern(json, check.regex.source);
    else if (check.kind === "startsWith") writePattern(json, `^${escapePattern(String(check.value))}`);
    else if (check.kind === "endsWith") writePattern(json, `${escapePattern(String(check.value))}$`);
    else if (check.kind === "includes") writePattern(json, escapePattern(String(check.value)));
    else if (check.kind === "ip" && check.version) writeStringFormat(json, `ip${check.version}`, undefined);
    else writeStringFormat(json, check.kind, undefined);
  }
  return json;
}

/** A Zod 3 number and its checks as JSON Schema. */
export function zod3NumberChecks(checks: unknown): Json {
  const json: Json = { type: "number" };
  for (const check of checksOf(checks)) {
    if (check.kind === "int") json.type = "integer";
    else if (check.kind === "min") json[check.inclusive ? "minimum" : "exclusiveMinimum"] = check.value;
    else if (check.kind === "max") json[check.inclusive ? "maximum" : "exclusiveMaximum"] = check.value;
    else if (check.kind === "multipleOf") json.multipleOf = check.value;
  }
  return json;
}

/** The limits on the length of a Zod 3 array. */
export function zod3ArrayChecks(definition: Zod3Definition): Json {
  const minimum = limitOf(definition.exactLength) ?? limitOf(definition.minLength);
  const maximum = limitOf(definition.exactLength) ?? limitOf(definition.maxLength);
  return {
    ...(minimum === undefined ? {} : { minItems: minimum }),
    ...(maximum === undefined ? {} : { maxItems: maximum }),
  };
}

function limitOf(limit: unknown): unknown {
  return typeof limit === "object" && limit !== null && "value" in limit ? limit.value : undefined;
}

function checksOf(checks: unknown): readonly Check[] {
  return Array.isArray(checks) ? checks : [];
}
