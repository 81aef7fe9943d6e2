import type { JsonSchemaObject } from "@toolrack/core";
import { schemas } from "./schemas/server.ts";
import type { Route } from "./wire/index.ts";
import { type HttpErrorCode, httpErrorCodes, s } from "./wire/index.ts";

const json = "application/json";

/** The OpenAPI 3.1 document of all routes. It shows the same schemas that validate requests. */
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
      description: `Every error has one form, \`{error: {code, message, type, param, details}}\`. The codes:\n\n${codeList()}`,
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
  const { id, tag, summary, description, access, params = {}, query = {} } = route;
  const schema = bodyOf(route);
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
    ...(schema === undefined
      ? {}
      : {
          requestBody: {
            required: route.body !== undefined,
            content: { [json]: { schema } },
          },
        }),
    responses: { ...successes(route), ...failures(route) },
  };
}

function parameter(name: string, place: "path" | "query", schema: JsonSchemaObject): Record<string, unknown> {
  const { description, ...rest } = schema;
  const described = description === undefined ? {} : { description };
  return { name, in: place, ...(place === "path" ? { required: true } : {}), ...described, schema: rest };
}

function bodyOf({ body, optionalBody }: Route): JsonSchemaObject | undefined {
  return body ?? optionalBody;
}

function successes({ answer, stream, empty }: Route): Record<string, unknown> {
  const [description, schema, contentType = json] = answer;
  const content = { [contentType.split(";")[0]!]: { schema } };
  const fullDescription = stream === undefined ? description : `${description} ${stream}`;
  const streamed = stream === undefined ? {} : { "text/event-stream": { schema: s.text() } };
  return {
    200: { description: fullDescription, content: { ...content, ...streamed } },
    ...(empty === undefined
      ? {}
      : { 204: { description: empty, content: { [json]: { schema: s.text() } } } }),
  };
}

function failures(route: Route): Record<string, unknown> {
  const byStatus = Map.groupBy(new Set([...commonErrors(route), ...(route.errors ?? [])]), statusOf);
  const entries = [...byStatus].map(([status, codes]) => [
    status,
    {
      description: codes.map((code) => `\`${code}\`: ${httpErrorCodes[code].when}`).join("\n\n"),
      content: { [json]: { schema: s.ref("Error") } },
    },
  ]);
  return Object.fromEntries(entries);
}

function commonErrors(route: Route): HttpErrorCode[] {
  const { access, params, query } = route;
  const body = bodyOf(route);
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

function codeList(): string {
  const rows = Object.entries(httpErrorCodes).map(
    ([code, { status, when }]) => `- \`${code}\` (${status}): ${when}`,
  );
  return rows.join("\n");
}
