import { writeStringFormat } from "./string-format.ts";
import { isZod4, type Zod4Definition } from "./zod-types.ts";

type Json = Record<string, unknown>;

/** The checks of a Zod 4 string, number, array or set as JSON Schema keywords. */
export function zod4Checks(definition: Zod4Definition): Json {
  const json: Json = {};
  const isArray = definition.type === "array" || definition.type === "set";
  const attached: readonly unknown[] = Array.isArray(definition.checks) ? definition.checks : [];
  // A format such as z.email() is its own check; others are attached.
  for (const check of [definition, ...attached.map(definitionOf)]) writeCheck(json, check, isArray);
  return json;
}

function writeCheck(json: Json, check: Json, isArray: boolean): void {
  switch (check.check) {
    case "min_length":
    case "min_size":
      json[isArray ? "minItems" : "minLength"] = check.minimum;
      return;
    case "max_length":
    case "max_size":
      json[isArray ? "maxItems" : "maxLength"] = check.maximum;
      return;
    case "length_equals":
      json[isArray ? "minItems" : "minLength"] = check.length;
      json[isArray ? "maxItems" : "maxLength"] = check.length;
      return;
    case "greater_than":
      json[check.inclusive ? "minimum" : "exclusiveMinimum"] = check.value;
      return;
    case "less_than":
      json[check.inclusive ? "maximum" : "exclusiveMaximum"] = check.value;
      return;
    case "multiple_of":
      json.multipleOf = check.value;
      return;
    case "number_format":
      if (String(check.format).includes("int")) json.type = "integer";
      return;
    case "string_format":
      writeStringFormat(json, String(check.format), check.pattern);
  }
}

/** Checks have a definition in the same place as schemas. */
function definitionOf(check: unknown): Json {
  if (isZod4(check)) return check._zod.def;
  const internals = typeof check === "object" && check !== null && "_zod" in check ? check._zod : undefined;
  return typeof internals === "object" && internals !== null && "def" in internals
    ? (internals.def as Json)
    : {}; // A record by Zod's contract.
}
