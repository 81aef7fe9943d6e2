import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { isRecord } from "./json-value.ts";
import { isSchema, mapSubschemas } from "./map-subschemas.ts";

/** What a `$ref` inside a document points to. Nothing outside the document is ever fetched. */
export function resolveReference(root: JsonSchemaObject, reference: string): JsonSchema | undefined {
  if (reference === "#" || reference === "#/") return root;
  if (reference.startsWith("#/")) return resolvePointer(root, reference.slice(2));
  if (reference.startsWith("#")) return findAnchored(root, reference.slice(1));
  if (typeof root.$id === "string" && reference.startsWith(`${root.$id}#`)) {
    return resolveReference(root, reference.slice(root.$id.length));
  }
  return reference === root.$id ? root : undefined;
}

function resolvePointer(root: JsonSchemaObject, path: string): JsonSchema | undefined {
  let current: unknown = root;
  for (const token of path.split("/")) {
    const key = decodeToken(token);
    if (Array.isArray(current)) current = current[Number(key)];
    else if (isRecord(current) && Object.hasOwn(current, key)) current = current[key];
    else return undefined;
  }
  return isSchema(current) ? current : undefined;
}

function decodeToken(token: string): string {
  let decoded = token;
  try {
    decoded = decodeURIComponent(token);
  } catch {
    // A stray percent sign: the token is meant as it stands.
  }
  return decoded.replaceAll("~1", "/").replaceAll("~0", "~");
}

function findAnchored(root: JsonSchemaObject, anchor: string): JsonSchema | undefined {
  let found: JsonSchema | undefined;
  const visit = (schema: JsonSchema): JsonSchema => {
    if (found !== undefined || !isRecord(schema)) return schema;
    if (schema.$anchor === anchor || schema.$dynamicAnchor === anchor) found = schema;
    else mapSubschemas(schema, "", visit);
    return schema;
  };
  visit(root);
  return found;
}
