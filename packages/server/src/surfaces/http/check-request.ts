import { type CompiledSchema, compileSchema, type JsonSchemaObject } from "@toolrack/core";
import { HttpError } from "./http-error.ts";
import { readQuery } from "./read-query.ts";
import type { Route } from "./route.ts";

export interface RequestCheck {
  params(values: Record<string, string>): Promise<unknown>;
  query(search: string): Promise<unknown>;
  body(value: unknown): Promise<unknown>;
}

/** Checks what a request says with the schemas of its route; those that the API's description shows. */
export function checkerOf({ params = {}, query = {}, body }: Route): RequestCheck {
  const paramSchema = compileSchema(objectOf(params, Object.keys(params)));
  const querySchema = compileSchema(objectOf(query, []));
  const bodySchema = body === undefined ? undefined : compileSchema(body.schema);
  return {
    params: (values) => checked("path", paramSchema, values),
    query: (search) => checked("query", querySchema, readQuery(search, query)),
    async body(value) {
      if (bodySchema === undefined) return undefined;
      if (value === undefined && body?.required) {
        throw new HttpError("invalid_request", "This request needs a body.", {
          details: { in: "body", issues: [] },
        });
      }
      return checked("body", bodySchema, value ?? {});
    },
  };
}

function objectOf(
  properties: Readonly<Record<string, JsonSchemaObject>>,
  required: readonly string[],
): JsonSchemaObject {
  return { type: "object", properties, required, additionalProperties: false };
}

async function checked(place: string, schema: CompiledSchema, value: unknown): Promise<unknown> {
  const outcome = await schema.validate(value, { strict: true });
  if (outcome.ok) return outcome.value;
  const { issues } = outcome;
  const list = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ");
  const message = `The ${place} of the request does not fit: ${list}`;
  throw new HttpError("invalid_request", message, { details: { in: place, issues } });
}
