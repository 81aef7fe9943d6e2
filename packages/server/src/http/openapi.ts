import type { JsonSchemaObject } from "@toolrack/core";
import { ref, schemas } from "./schemas/common.ts";
import type { Route } from "./wire/index.ts";
import { type HttpErrorCode, httpErrorCodes } from "./wire/index.ts";

/** The OpenAPI 3.1 document of the table of routes. Its request schemas are the very ones that requests are checked with. */
export function describeApi(
  routes: readonly Route[],
  others: Readonly<Record<string, JsonSchemaObject>>,
): JsonSchemaObject {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Toolrack",
      version: "1",
      description: `Every error has one form, \`{error: {code, message, details}}\`. The codes:\n\n${codeList()}`,
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "The master token is in `.toolrack/token`." },
      },
      schemas: { ...schemas, ...others },
    },
  };
}

function operationOf(route: Route): Record<string, unknown> {
  const { id, tag, summary, description, access, params = {}, query = {}, body } = route;
  const parameters = [
    ...Object.entries(params).map(([name, schema]) => parameter(name, "path", schema)),
    ...Object.entries(query).map(([name, schema]) => parameter(name, "query", schema)),
  ];
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(access === "open" ? { security: [] } : {}),
    ...(access === "admin" ? { "x-access": "admin" } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: body.required === true,
            content: { "application/json": { schema: body.schema } },
          },
        }),
    responses: { ...successes(route), ...failures(route) },
  };
}

function parameter(name: string, place: "path" | "query", schema: JsonSchemaObject): Record<string, unknown> {
  const { description, ...rest } = schema;
  const said = description === undefined ? {} : { description };
  return { name, in: place, ...(place === "path" ? { required: true } : {}), ...said, schema: rest };
}

function successes(route: Route): Record<string, unknown> {
  const entries = Object.entries(route.responses).map(([status, response]) => {
    const kinds = [response].flat();
    const content = kinds.map(({ contentType, schema }) => [mediaType(contentType), { schema }]);
    const description = kinds.map((kind) => kind.description).join(" ");
    return [status, { description, content: Object.fromEntries(content) }];
  });
  return Object.fromEntries(entries);
}

function failures(route: Route): Record<string, unknown> {
  const byStatus = Map.groupBy(new Set([...commonErrors(route), ...(route.errors ?? [])]), statusOf);
  const entries = [...byStatus].map(([status, codes]) => [
    status,
    {
      description: codes.map((code) => `\`${code}\`: ${httpErrorCodes[code].when}`).join("\n\n"),
      content: { "application/json": { schema: ref("Error") } },
    },
  ]);
  return Object.fromEntries(entries);
}

function commonErrors({ access, params, query, body }: Route): HttpErrorCode[] {
  const errors: HttpErrorCode[] = ["host_not_allowed", "origin_not_allowed", "internal_error"];
  if (params !== undefined || query !== undefined || body !== undefined) errors.push("invalid_request");
  if (access !== "open") errors.push("unauthorized", "rate_limited", "store_unavailable");
  if (access === "admin") errors.push("forbidden");
  if (body !== undefined)
    errors.push("bad_request", "invalid_json", "payload_too_large", "unsupported_media_type");
  return errors;
}

function statusOf(code: HttpErrorCode): number {
  return httpErrorCodes[code].status;
}

function mediaType(contentType = "application/json"): string {
  return contentType.split(";")[0]!;
}

function codeList(): string {
  const rows = Object.entries(httpErrorCodes).map(
    ([code, { status, when }]) => `- \`${code}\` (${status}): ${when}`,
  );
  return rows.join("\n");
}
