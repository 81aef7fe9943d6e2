import { basename } from "node:path";
import type { JsonSchemaObject } from "@toolrack/core";
import { isJson } from "../access/index.ts";
import { asRecord, isRecord } from "../helpers/index.ts";
import { bodySchema, type RequestBody, readBody } from "./bodies.ts";
import {
  isCredential,
  readSchemes,
  readSecurity,
  type Security,
  type SecurityScheme,
} from "./credentials.ts";
import { type ApiDocument, nameOf } from "./document.ts";
import {
  attempt,
  freeName,
  isGiven,
  type Parameter,
  readParameters,
  requirePathParameters,
  text,
  withArguments,
} from "./parameters.ts";
import { DocumentSchemas } from "./schemas.ts";

type Members = Readonly<Record<string, unknown>>;

/** One operation of an API: what a tool shows of it, and how a call of it becomes a request. */
export interface Operation {
  /** The operation's id, or its method and path where it has none. */
  readonly name: string;
  readonly method: string;
  /** As the description writes it, such as `/pets/{id}`. */
  readonly path: string;
  readonly title: string | undefined;
  readonly description: string;
  readonly tags: readonly string[];
  readonly isDeprecated: boolean;
  /** The address that the path is added to, with its variables filled in. */
  readonly server: string;
  readonly parameters: readonly Parameter[];
  readonly body: RequestBody | undefined;
  readonly inputSchema: JsonSchemaObject;
  readonly outputSchema: JsonSchemaObject | undefined;
  readonly security: Security;
}

export interface Skipped {
  readonly name: string;
  readonly reason: string;
}

export interface ApiOperations {
  readonly title: string;
  readonly description: string;
  readonly operations: readonly Operation[];
  /** The operations that cannot be called, and why. */
  readonly skipped: readonly Skipped[];
  readonly schemes: ReadonlyMap<string, SecurityScheme>;
}

/** Methods that a description names by members of a path. OpenAPI 3.2 has others under `additionalOperations`. */
const methods = ["get", "head", "post", "put", "patch", "delete", "options", "query"];
/** Operations of one API. A model could not choose among more, and each takes memory. */
const MOST_OPERATIONS = 5_000;
/** Bytes of the JSON of a schema. A longer one would fill a model's context by itself. */
const LONGEST_INPUT = 128 * 1024;
const LONGEST_OUTPUT = 32 * 1024;

/** Reads the operations of a document. One that cannot be expressed is skipped, with the reason. */
export function readOperations(
  document: ApiDocument,
  { baseUrl, headers }: { readonly baseUrl?: string | undefined; readonly headers: object },
): ApiOperations {
  const { root, place } = document;
  const schemas = new DocumentSchemas(root);
  const schemes = readSchemes(document, schemas);
  const reader = { document, schemas, schemes, baseUrl, headers, names: new Set<string>() };
  const operations: Operation[] = [];
  const skipped: Skipped[] = [];
  for (const [path, given] of Object.entries(asRecord(root.paths))) {
    if (path.startsWith("x-")) continue;
    const item = attempt(() => schemas.resolve(given));
    if (!isRecord(item)) {
      skipped.push({ name: path, reason: item instanceof Error ? sentence(item) : "It is no object." });
      continue;
    }
    for (const [method, written] of operationsOf(item)) {
      const name = uniqueName(written, method, path, reader.names);
      const found =
        operations.length === MOST_OPERATIONS
          ? new Error(
              `the description has more than ${MOST_OPERATIONS} operations, and only the first are offered`,
            )
          : attempt(() => readOperation(reader, { name, method, path, item, given: asRecord(written) }));
      if (found instanceof Error) skipped.push({ name, reason: sentence(found) });
      else operations.push(found);
    }
  }
  const { title, description } = asRecord(root.info);
  return {
    title: text(title) || (place.kind === "file" ? basename(place.path) : nameOf(place)),
    description: text(description),
    operations,
    skipped,
    schemes,
  };
}

interface Reader {
  readonly document: ApiDocument;
  readonly schemas: DocumentSchemas;
  readonly schemes: ReadonlyMap<string, SecurityScheme>;
  readonly baseUrl: string | undefined;
  /** The headers that the entry gives, by their names in lower case. */
  readonly headers: object;
  readonly names: Set<string>;
}

interface Place {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly item: Members;
  readonly given: Members;
}

/** The operations of a path, each with its method as it is sent. */
function operationsOf(item: Members): (readonly [method: string, written: unknown])[] {
  const usual = methods.flatMap((method) =>
    item[method] === undefined ? [] : [[method, item[method]] as const],
  );
  const others = Object.entries(asRecord(item.additionalOperations));
  return [...usual, ...others].map(([method, written]) => [method.toUpperCase(), written]);
}

/** Methods that are no request to the API itself, and texts that are no methods. */
const noMethod = /^(?:connect|trace)$|[^\w!#$%&'*+.^`|~-]/i;

function readOperation(reader: Reader, { name, method, path, item, given }: Place): Operation {
  const { schemas, schemes, document } = reader;
  if (noMethod.test(method)) throw new Error(`its method "${method}" cannot be sent`);
  const security = readSecurity(given.security ?? document.root.security);
  const declared = readParameters(schemas, item.parameters, given.parameters).filter(
    (parameter) => !isCredential(parameter, security, schemes) && !isGiven(parameter, reader.headers),
  );
  const body = readBody(schemas, given.requestBody, method);
  const parameters = withArguments(declared);
  const needs = new Set<string>();
  const properties: Record<string, JsonSchemaObject> = {};
  const required: string[] = [];
  for (const [index, parameter] of parameters.entries()) {
    const { schema, description, isDeprecated } = declared[index]!;
    properties[parameter.argument] = {
      ...schemas.part(schema, "request", needs),
      ...(description !== "" && { description }),
      ...(isDeprecated && { deprecated: true }),
    };
    if (parameter.isRequired) required.push(parameter.argument);
  }
  requirePathParameters(path, parameters);
  let requestBody: RequestBody | undefined;
  if (body !== undefined) {
    const argument = freeName(["body", "requestBody", "request_body"], properties);
    const { schema, description, ...rest } = body;
    const files = new Set<string>();
    // The fields of a form are looked at below, so they must not be behind a reference.
    const plain = rest.form === "multipart" ? schemas.resolve(schema) : schema;
    const part = bodySchema(schemas.part(plain, "request", needs), rest.form, files);
    properties[argument] = {
      ...part,
      ...(description !== "" && part.description === undefined && { description }),
    };
    if (rest.isRequired) required.push(argument);
    requestBody = { ...rest, argument, files };
  }
  const own = {
    type: "object",
    properties,
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
  const inputSchema = schemas.withDefinitions(own, needs, "request", LONGEST_INPUT);
  return {
    name,
    method,
    path,
    title: text(given.summary) || undefined,
    description: descriptionOf(given, item, method, path),
    tags: Array.isArray(given.tags) ? given.tags.filter((tag) => typeof tag === "string") : [],
    isDeprecated: given.deprecated === true,
    server: serverOf(reader, given.servers ?? item.servers),
    parameters,
    body: requestBody,
    inputSchema,
    outputSchema: outputSchemaOf(schemas, given.responses),
    security,
  };
}

function descriptionOf(given: Members, item: Members, method: string, path: string): string {
  const parts = [
    text(given.summary) || text(item.summary),
    text(given.description) || text(item.description),
  ];
  const said = parts.filter((part, index) => part !== "" && parts.indexOf(part) === index).join("\n\n");
  return said === "" ? `${method} ${path}` : said;
}

/** The operation's own id if no other operation has it, and otherwise its method and path. */
function uniqueName(given: unknown, method: string, path: string, names: Set<string>): string {
  const { operationId } = asRecord(given);
  const plain = `${method.toLowerCase()}${path.replace(/[^A-Za-z0-9]+/g, "_").replace(/_$/, "") || "_root"}`;
  const own = typeof operationId === "string" ? operationId.trim() : "";
  const candidates = [own, plain, `${method.toLowerCase()} ${path}`].filter((name) => name !== "");
  const name = candidates.find((one) => !names.has(one.toLowerCase())) ?? plain;
  names.add(name.toLowerCase());
  return name;
}

/** The schema of the first success that is answered in JSON. Undefined when there is none, or it is very long. */
function outputSchemaOf(schemas: DocumentSchemas, responses: unknown): JsonSchemaObject | undefined {
  const good = Object.entries(asRecord(responses)).filter(([status]) => /^(?:2\d\d|2XX)$/i.test(status));
  for (const [, given] of good) {
    const { content } = asRecord(attempt(() => schemas.resolve(given)));
    const [, media] =
      Object.entries(asRecord(content)).find(([type]) => isJson(type.split(";")[0] ?? "")) ?? [];
    const { schema } = asRecord(media);
    if (schema === undefined) continue;
    const converted = attempt(() => schemas.toJsonSchema(schema, "response", LONGEST_OUTPUT));
    if (converted instanceof Error) return undefined;
    // A tool's structured result is an object; other values stand under `result`.
    return isObjectSchema(converted, converted) ? converted : undefined;
  }
  return undefined;
}

function isObjectSchema(schema: JsonSchemaObject, root: JsonSchemaObject): boolean {
  const { type, $ref } = schema;
  if (type === "object") return true;
  if (typeof $ref !== "string" || type !== undefined) return false;
  const target = asRecord(root.$defs)[$ref.slice("#/$defs/".length)];
  return isRecord(target) && target.type === "object";
}

/** The address before the path: of the entry, the operation, the path or the whole description. */
function serverOf({ document, baseUrl }: Reader, own: unknown): string {
  if (baseUrl !== undefined) return baseUrl;
  const { root, place } = document;
  const listed = [own, root.servers].find((servers) => Array.isArray(servers) && servers.length > 0);
  const { url = "/", variables } = asRecord(Array.isArray(listed) ? listed[0] : undefined);
  const filled = String(url).replace(/\{([^{}]*)\}/g, (_whole, name: string) => {
    const { default: usual } = asRecord(asRecord(variables)[name]);
    if (usual === undefined)
      throw new Error(`its server ${String(url)} has the variable "${name}" without a default`);
    return String(usual);
  });
  const address = URL.parse(filled, place.kind === "address" ? place.url : undefined);
  if (address !== null && (address.username !== "" || address.password !== ""))
    throw new Error('its server has a user name in its address; write the API\'s address as "baseUrl"');
  if (address !== null && /^https?:$/.test(address.protocol)) return address.href;
  throw new Error(`its server "${filled}" is no whole address; write the API's address as "baseUrl"`);
}

function sentence({ message }: Error): string {
  const end = /[.!?]$/.test(message) ? "" : ".";
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${end}`;
}
