import type { ErrorObject } from "ajv/dist/core.js";
import { anyOf, describeAllBut, describeExpected, describeKeyword } from "./describe-expected.ts";
import { maximumIssues, mismatch, type SchemaIssue, unknownKey } from "./issue.ts";
import { isRecord, type JsonSchemaObject, keysOf, listOf, memberAt, pointerSteps } from "./visit.ts";

type Segments = (string | number)[];

/** The engine's errors as issues: alternatives condensed, repetitions left out, at most 20. */
export function jsonSchemaIssues(
  errors: readonly ErrorObject[],
  value: unknown,
  root: JsonSchemaObject,
): SchemaIssue[] {
  const issues: SchemaIssue[] = [];
  const seen = new Set<string>();
  for (const issue of condense(errors, value, root)) {
    const key = `${issue.path}\n${issue.expected}`;
    if (seen.has(key)) continue;
    seen.add(key);
    issues.push(issue);
    if (issues.length === maximumIssues) break;
  }
  return issues;
}

/**
 * The error of a keyword with branches, such as `anyOf`, follows the errors of its branches. So this reads from the
 * end, and each such error replaces those of its branches.
 */
function condense(errors: readonly ErrorObject[], value: unknown, root: JsonSchemaObject): SchemaIssue[] {
  const groups: SchemaIssue[][] = [];
  for (let end = errors.length - 1; end >= 0; end--) {
    const error = errors[end]!;
    if (error.keyword === "if" && errors.length > 1) continue;
    if (!branchingKeywords.has(error.keyword)) {
      groups.push([explain(error, value, root)]);
      continue;
    }
    let start = end;
    while (start > 0 && belongsTo(errors[start - 1]!, error)) start--;
    groups.push(explainBranches(error, errors.slice(start, end), value, root));
    end = start;
  }
  return groups.reverse().flat();
}

const branchingKeywords = new Set(["anyOf", "oneOf", "contains", "propertyNames"]);

/** Whether an error comes from a branch of the composite: at or below its place, and not from a sibling keyword. */
function belongsTo(error: ErrorObject, composite: ErrorObject): boolean {
  if (error.keyword === "required" && error.parentSchema === composite.parentSchema) return false;
  if (!`${error.instancePath}/`.startsWith(`${composite.instancePath}/`)) return false;
  if (error.schemaPath.startsWith(`${composite.schemaPath}/`)) return true;
  const parent = composite.schemaPath.slice(0, composite.schemaPath.lastIndexOf("/"));
  const isDefinition =
    /^#\/(\$defs|definitions)\//.test(error.schemaPath) && !/^#\/(\$defs|definitions)\//.test(parent);
  return isDefinition || !error.schemaPath.startsWith(`${parent}/`);
}

function explainBranches(
  error: ErrorObject,
  inner: readonly ErrorObject[],
  value: unknown,
  root: JsonSchemaObject,
): SchemaIssue[] {
  if (error.keyword !== "anyOf" && error.keyword !== "oneOf") return [explain(error, value, root)];
  const segments = segmentsOf(error.instancePath, value);
  const branches = listOf(error.schema);
  const passing: unknown = error.params.passingSchemas;
  if (Array.isArray(passing)) {
    const forms = passing.map((index) => describeExpected(branches[Number(index)], root, 1));
    return [
      mismatch(
        segments,
        `exactly one of ${branches.length} forms, not ${anyOf(forms, " and ")} at once`,
        error.data,
      ),
    ];
  }
  const meant = likeliestBranch(error, branches, inner);
  if (meant !== undefined) return condense(meant, value, root);
  return [mismatch(segments, anyOf(branches.map((branch) => describeExpected(branch, root, 1))), error.data)];
}

/** The errors of the branch that was evidently meant, if there is one. */
function likeliestBranch(
  error: ErrorObject,
  branches: readonly unknown[],
  inner: readonly ErrorObject[],
): readonly ErrorObject[] | undefined {
  const candidates = branches
    .map((branch, index) =>
      inner.filter((other) => isInBranch(other, branch, `${error.schemaPath}/${index}`)),
    )
    .filter((own) => own.length > 0 && !own.some((other) => isElsewhere(other, error)));
  const [best, second] = candidates.toSorted((left, right) => left.length - right.length);
  if (best === undefined) return undefined;
  return second === undefined || (typeof error.data === "object" && best.length < second.length)
    ? best
    : undefined;
}

function isInBranch(error: ErrorObject, branch: unknown, branchPath: string): boolean {
  if (error.schemaPath.startsWith(`${branchPath}/`)) return true;
  const reference = isRecord(branch) ? branch.$ref : undefined;
  return typeof reference === "string" && error.schemaPath.startsWith(`${reference}/`);
}

/** Whether the error rules its branch out: the value has another type, or a distinguishing key has another value. */
function isElsewhere(error: ErrorObject, composite: ErrorObject): boolean {
  const depth = error.instancePath.split("/").length - composite.instancePath.split("/").length;
  if (error.keyword === "type" || error.keyword === "enum") return depth === 0;
  return error.keyword === "const" && depth <= 1;
}

function explain(error: ErrorObject, value: unknown, root: JsonSchemaObject): SchemaIssue {
  const segments = segmentsOf(error.instancePath, value);
  const { params, parentSchema } = error;
  switch (error.keyword) {
    case "required":
    case "dependentRequired":
    case "dependencies": {
      const name = String(params.missingProperty);
      const property = memberAt(parentSchema?.properties, [name]);
      return mismatch([...segments, name], describeExpected(property, root), undefined);
    }
    case "additionalProperties":
    case "unevaluatedProperties": {
      const key = String(params.additionalProperty ?? params.unevaluatedProperty);
      return unknownKey(segments, key, memberAt(error.data, [key]), keysOf(parentSchema?.properties));
    }
    case "propertyNames": {
      const key = String(params.propertyName);
      const wanted = describeExpected(error.schema, root);
      return mismatch([...segments, key], `a key that is ${wanted}`, key);
    }
    case "contains":
      return mismatch(
        segments,
        `array with an item that is ${describeExpected(error.schema, root)}`,
        error.data,
      );
    case "not":
      return mismatch(segments, describeAllBut(error.schema, root), error.data);
    case "false schema":
      return mismatch(segments, "nothing", error.data);
    case "items":
    case "additionalItems":
    case "unevaluatedItems":
      return mismatch(
        segments,
        `array of at most ${params.limit ?? params.len ?? "the listed"} items`,
        error.data,
      );
    case "uniqueItems":
      return mismatch(segments, "array without repeated items", error.data, repeatedItems(params));
    default:
      return mismatch(segments, describeKeyword(error.keyword, parentSchema, root, error.data), error.data);
  }
}

function repeatedItems(params: Readonly<Record<string, unknown>>): string {
  return `Items ${params.j} and ${params.i} are equal; every item may appear only once.`;
}

/** A JSON Pointer as path segments, numbers where the value is an array. */
function segmentsOf(pointer: string, value: unknown): Segments {
  const segments: Segments = [];
  let place = value;
  for (const step of pointerSteps(pointer)) {
    segments.push(Array.isArray(place) ? Number(step) : step);
    place = memberAt(place, [step]);
  }
  return segments;
}
