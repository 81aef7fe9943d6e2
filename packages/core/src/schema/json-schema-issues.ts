import type { ErrorObject } from "ajv/dist/core.js";
import { anyOf, describeAllBut, describeExpected, describeKeyword } from "./describe-expected.ts";
import { maximumIssues, mismatch, type SchemaIssue, unknownKey } from "./issue.ts";
import { type JsonSchemaObject, keysOf, listOf, memberAt, pointerSteps } from "./visit.ts";

/**
 * Converts the errors of the validation engine (Ajv) to issues: the errors of alternatives are condensed,
 * repetitions left out, at most 20 reported.
 */
export function jsonSchemaIssues(
  errors: readonly ErrorObject[],
  value: unknown,
  root: JsonSchemaObject,
): SchemaIssue[] {
  const expected = (schema: unknown) => describeExpected(schema, root);
  // Reports each issue once, in the order of first occurrence.
  const issues = new Map(condense(errors).map((issue) => [`${issue.path}\n${issue.expected}`, issue]));
  return [...issues.values()].slice(0, maximumIssues);

  /**
   * The error of a keyword with branches, such as `anyOf`, follows the errors of its branches. So this reads from the
   * end, and each such error replaces those of its branches.
   */
  function condense(given: readonly ErrorObject[]): SchemaIssue[] {
    const groups: SchemaIssue[][] = [];
    for (let end = given.length - 1; end >= 0; end--) {
      const error = given[end]!;
      if (error.keyword === "if" && given.length > 1) continue;
      let start = end;
      if (branchingKeywords.has(error.keyword))
        while (start > 0 && belongsTo(given[start - 1]!, error)) start--;
      const isUnion = error.keyword === "anyOf" || error.keyword === "oneOf";
      groups.push(isUnion ? explainUnion(error, given.slice(start, end)) : [explain(error)]);
      end = start;
    }
    return groups.reverse().flat();
  }

  function explainUnion(error: ErrorObject, inner: readonly ErrorObject[]): SchemaIssue[] {
    const branches = listOf(error.schema);
    const forms = branches.map((branch) => describeExpected(branch, root, 1));
    const passing: unknown = error.params.passingSchemas;
    if (Array.isArray(passing)) {
      const fitting = anyOf(
        passing.map((index) => forms[Number(index)]!),
        " and ",
      );
      return [at(error, `exactly one of ${branches.length} forms, not ${fitting} at once`)];
    }
    const meant = likeliestBranch(error, branches, inner);
    return meant === undefined ? [at(error, anyOf(forms))] : condense(meant);
  }

  function explain(error: ErrorObject): SchemaIssue {
    const { params, parentSchema, schema, data } = error;
    const segments = segmentsOf(error.instancePath, value);
    switch (error.keyword) {
      case "required":
      case "dependentRequired":
      case "dependencies": {
        const name = String(params.missingProperty);
        return mismatch([...segments, name], expected(memberAt(parentSchema?.properties, [name])), undefined);
      }
      case "additionalProperties":
      case "unevaluatedProperties": {
        const key = String(params.additionalProperty ?? params.unevaluatedProperty);
        return unknownKey(segments, key, memberAt(data, [key]), keysOf(parentSchema?.properties));
      }
      case "propertyNames": {
        const key = String(params.propertyName);
        return mismatch([...segments, key], `a key that is ${expected(schema)}`, key);
      }
      case "contains":
        return at(error, `array with an item that is ${expected(schema)}`);
      case "not":
        return at(error, describeAllBut(schema, root));
      case "false schema":
        return at(error, "nothing");
      case "items":
      case "additionalItems":
      case "unevaluatedItems":
        return at(error, `array of at most ${params.limit ?? params.len ?? "the listed"} items`);
      case "uniqueItems": {
        const message = `Items ${params.j} and ${params.i} are equal; every item may appear only once.`;
        return mismatch(segments, "array without repeated items", data, message);
      }
      default:
        return at(error, describeKeyword(error.keyword, parentSchema, root, data));
    }
  }

  function at(error: ErrorObject, wanted: string): SchemaIssue {
    return mismatch(segmentsOf(error.instancePath, value), wanted, error.data);
  }
}

const branchingKeywords = new Set(["anyOf", "oneOf", "contains", "propertyNames"]);

/**
 * Whether an error comes from a branch of the keyword that `composite` reports: at the same place in the
 * value or below, and not from a keyword beside it.
 */
function belongsTo(error: ErrorObject, composite: ErrorObject): boolean {
  if (error.keyword === "required" && error.parentSchema === composite.parentSchema) return false;
  if (!`${error.instancePath}/`.startsWith(`${composite.instancePath}/`)) return false;
  if (error.schemaPath.startsWith(`${composite.schemaPath}/`)) return true;
  const parent = composite.schemaPath.slice(0, composite.schemaPath.lastIndexOf("/"));
  const definition = /^#\/(\$defs|definitions)\//;
  const isDefinition = definition.test(error.schemaPath) && !definition.test(parent);
  return isDefinition || !error.schemaPath.startsWith(`${parent}/`);
}

/** The errors of the branch that was evidently meant, if there is one. */
function likeliestBranch(
  error: ErrorObject,
  branches: readonly unknown[],
  inner: readonly ErrorObject[],
): readonly ErrorObject[] | undefined {
  const candidates = branches
    .map((branch, index) => {
      const paths = [`${error.schemaPath}/${index}/`, `${memberAt(branch, ["$ref"])}/`];
      return inner.filter(({ schemaPath }) => paths.some((path) => schemaPath.startsWith(path)));
    })
    .filter((own) => own.length > 0 && !own.some((other) => isElsewhere(other, error)));
  const [best, second] = candidates.toSorted((left, right) => left.length - right.length);
  if (best === undefined || second === undefined) return best;
  return typeof error.data === "object" && best.length < second.length ? best : undefined;
}

/** Whether the error rules its branch out: the value has another type, or a distinguishing key has another value. */
function isElsewhere(error: ErrorObject, composite: ErrorObject): boolean {
  const depth = error.instancePath.split("/").length - composite.instancePath.split("/").length;
  if (error.keyword === "type" || error.keyword === "enum") return depth === 0;
  return error.keyword === "const" && depth <= 1;
}

/** A JSON Pointer as path segments, numbers where the value is an array. */
function segmentsOf(pointer: string, value: unknown): (string | number)[] {
  let place = value;
  return pointerSteps(pointer).map((step) => {
    const segment = Array.isArray(place) ? Number(step) : step;
    place = memberAt(place, [step]);
    return segment;
  });
}
