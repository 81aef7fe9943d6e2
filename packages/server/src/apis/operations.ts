import { validateHeaderName } from "node:http";
import type { JsonSchemaObject } from "@toolrack/core";
import { isJson } from "../access/index.ts";
import { asRecord, isRecord, reasonOf } from "../helpers/index.ts";
import { type ApiDocument, nameOf } from "./document.ts";
import { DocumentSchemas } from "./schemas.ts";

type Members = Readonly<Record<string, unknown>>;

export type ParameterPlace = "path" | "query" | "header" | "cookie";

/** A parameter of an operation, and how its value is written into the request. */
export interface Parameter {
  /** The key of its argument. */
  readonly argument: string;
  /** Its name in the request. */
  readonly name: string;
  readonly place: ParameterPlace;
  readonly style: string;
  readonly explode: boolean;
  /** Signs such as `/` and `?` are sent as they are. */
  readonly allowReserved: boolean;
  /** The value is sent as a text in this media type, which is JSON. */
  readonly isJson: boolean;
  readonly isRequired: boolean;
}

/** How a body is written: as JSON, as the fields of a form, as text, or as bytes. */
export type BodyForm = "json" | "form" | "multipart" | "text" | "binary";

export interface RequestBody {
  /** The key of its argument. */
  readonly argument: string;
  readonly mediaType: string;
  readonly form: BodyForm;
  readonly isRequired: boolean;
  /** The fields of a form that hold files. */
  readonly files: ReadonlySet<string>;
  /** For each field of a form: its media type, if the description names one, and whether lists repeat the field. */
  readonly fields: ReadonlyMap<string, { readonly mediaType?: string; readonly explode: boolean }>;
}

/** One way to sign a request, by the name of its scheme in the description. */
export type SecurityScheme =
  | { readonly kind: "apiKey"; readonly place: "header" | "query" | "cookie"; readonly name: string }
  | { readonly kind: "bearer" | "basic" }
  | { readonly kind: "oauth2"; readonly tokenUrl?: string }
  | { readonly kind: "unknown"; readonly text: string };

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
  /** Each list names the schemes that are needed together; one of the lists is enough. Empty: none is needed. */
  readonly security: readonly (readonly string[])[];
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

const methods = ["get", "head", "post", "put", "patch", "delete", "options", "query"];
/** Operations of one API. A model could not choose among more, and each takes memory. */
const MOST_OPERATIONS = 5_000;
/** Bytes of the JSON of a schema. A longer one would fill a model's context by itself. */
const LONGEST_INPUT = 128 * 1024;
const LONGEST_OUTPUT = 32 * 1024;
/** Headers that describe the body or the caller. By the rules of OpenAPI they are no parameters. */
const ownHeaders = /^(?:accept|content-type|authorization)$/i;
/** Headers that say where a message ends and where it goes. A caller who chose them could send a second request. */
const carryingHeaders =
  /^(?:host|content-length|content-encoding|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*)$/i;

/** Reads the operations of a document. One that cannot be expressed is skipped, with the reason. */
export function readOperations(
  document: ApiDocument,
  { baseUrl, headers }: { readonly baseUrl?: string | undefined; readonly headers: object },
): ApiOperations {
  const { root } = document;
  const schemas = new DocumentSchemas(root);
  const schemes = readSchemes(root, schemas);
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
    for (const method of methods.filter((method) => item[method] !== undefined)) {
      const name = uniqueName(item[method], method, path, reader.names);
      const found =
        operations.length === MOST_OPERATIONS
          ? new Error(
              `the description has more than ${MOST_OPERATIONS} operations, and only the first are offered`,
            )
          : attempt(() => readOperation(reader, { name, method, path, item }));
      if (found instanceof Error) skipped.push({ name, reason: sentence(found) });
      else operations.push(found);
    }
  }
  const { title, description } = asRecord(root.info);
  return {
    title: text(title) || nameOf(document.place),
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
}

function readOperation(reader: Reader, { name, method, path, item }: Place): Operation {
  const { schemas, schemes, document } = reader;
  const given = asRecord(item[method]);
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
    method: method.toUpperCase(),
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
  return said === "" ? `${method.toUpperCase()} ${path}` : said;
}

/** The operation's own id if no other operation has it, and otherwise its method and path. */
function uniqueName(given: unknown, method: string, path: string, names: Set<string>): string {
  const { operationId } = asRecord(given);
  const plain = `${method}${path.replace(/[^A-Za-z0-9]+/g, "_").replace(/_$/, "") || "_root"}`;
  const own = typeof operationId === "string" ? operationId.trim() : "";
  const candidates = [own, plain, `${method} ${path}`].filter((name) => name !== "");
  const name = candidates.find((one) => !names.has(one.toLowerCase())) ?? plain;
  names.add(name.toLowerCase());
  return name;
}

interface DeclaredParameter extends Omit<Parameter, "argument"> {
  readonly schema: unknown;
  readonly description: string;
  readonly isDeprecated: boolean;
}

const usualStyles: Readonly<Record<ParameterPlace, string>> = {
  path: "simple",
  query: "form",
  header: "simple",
  cookie: "form",
};

const styles: Readonly<Record<ParameterPlace, readonly string[]>> = {
  path: ["simple", "label", "matrix"],
  query: ["form", "spaceDelimited", "pipeDelimited", "deepObject"],
  header: ["simple"],
  cookie: ["form", "cookie"],
};

/** The parameters of the path and of the operation. One of the operation replaces the same one of the path. */
function readParameters(schemas: DocumentSchemas, ...lists: readonly unknown[]): DeclaredParameter[] {
  const found = new Map<string, DeclaredParameter>();
  for (const given of lists.flatMap((list) => (Array.isArray(list) ? list : []))) {
    const parameter = asRecord(schemas.resolve(given));
    const { name, in: place, explode, allowReserved, content } = parameter;
    if (typeof name !== "string" || name === "") throw new Error("one of its parameters has no name");
    if (place === "querystring") throw new Error(`its parameter "${name}" is a whole query string`);
    if (!isPlace(place))
      throw new Error(`its parameter "${name}" is in "${String(place)}", which is no place`);
    if (place === "header" && ownHeaders.test(name)) continue;
    if (place === "header" && !isHeaderName(name))
      throw new Error(`its parameter ${JSON.stringify(name)} is no header that a caller can set`);
    const style = text(parameter.style) || usualStyles[place];
    if (!styles[place].includes(style))
      throw new Error(
        `its parameter "${name}" has the style "${style}", which a ${place} parameter cannot have`,
      );
    const [media] = Object.entries(asRecord(content));
    if (media !== undefined && !isJson(media[0]))
      throw new Error(`its parameter "${name}" is written as ${media[0]}, and only JSON is supported`);
    found.set(`${place} ${name}`, {
      name,
      place,
      style,
      explode:
        typeof explode === "boolean"
          ? explode
          : style === "form" || style === "deepObject" || style === "cookie",
      allowReserved: allowReserved === true,
      isJson: media !== undefined,
      isRequired: parameter.required === true || place === "path",
      schema: media === undefined ? parameter.schema : asRecord(media[1]).schema,
      description: text(parameter.description),
      isDeprecated: parameter.deprecated === true,
    });
  }
  return [...found.values()];
}

function isHeaderName(name: string): boolean {
  return !carryingHeaders.test(name) && !(attempt(() => validateHeaderName(name)) instanceof Error);
}

/** The entry's own headers are sent in any case, so nobody is asked for them. */
function isGiven({ name, place }: DeclaredParameter, headers: object): boolean {
  return place === "header" && Object.hasOwn(headers, name.toLowerCase());
}

function isPlace(place: unknown): place is ParameterPlace {
  return typeof place === "string" && Object.hasOwn(usualStyles, place);
}

/** Names each parameter's argument: by its name, with its place before it where two parameters have one name. */
function withArguments(declared: readonly DeclaredParameter[]): Parameter[] {
  const count = (name: string) => declared.filter((parameter) => parameter.name === name).length;
  const taken: Record<string, unknown> = {};
  return declared.map(({ schema: _schema, description: _text, isDeprecated: _old, ...parameter }) => {
    const { name, place } = parameter;
    const own = count(name) > 1 ? [] : [name];
    const argument = freeName([...own, `${place}_${name}`, `${place}_${name}_`], taken);
    taken[argument] = true;
    return { ...parameter, argument };
  });
}

function freeName(candidates: readonly string[], taken: Readonly<Record<string, unknown>>): string {
  const free = candidates.find((name) => !Object.hasOwn(taken, name) && name !== "__proto__");
  if (free === undefined) throw new Error(`two of its parameters have the name "${candidates[0]}"`);
  return free;
}

/** Every `{name}` of the path needs a parameter, and the other way round. */
function requirePathParameters(path: string, parameters: readonly Parameter[]): void {
  const named = new Set([...path.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name));
  const given = parameters.filter(({ place }) => place === "path").map(({ name }) => name);
  const missing = [...named].find((name) => !given.includes(name ?? ""));
  if (missing !== undefined) throw new Error(`its path has {${missing}}, and no parameter says what that is`);
  const unused = given.find((name) => !named.has(name));
  if (unused !== undefined) throw new Error(`its path parameter "${unused}" does not stand in the path`);
}

interface DeclaredBody extends Omit<RequestBody, "argument" | "files"> {
  readonly schema: unknown;
  readonly description: string;
}

function readBody(schemas: DocumentSchemas, given: unknown, method: string): DeclaredBody | undefined {
  if (given === undefined || method === "get" || method === "head") return undefined;
  const body = asRecord(schemas.resolve(given));
  const offered = Object.entries(asRecord(body.content)).map(([type, media]) => ({
    mediaType: type.trim(),
    form: formOf(type),
    media: asRecord(schemas.resolve(media)),
  }));
  const order: readonly BodyForm[] = ["json", "multipart", "form", "text", "binary"];
  const [chosen] = offered.sort((one, other) => order.indexOf(one.form) - order.indexOf(other.form));
  if (chosen === undefined) return undefined;
  const { media, form } = chosen;
  const mediaType = chosen.mediaType.includes("*") ? concreteTypes[form] : chosen.mediaType;
  const fields = Object.entries(asRecord(media.encoding)).map(([name, encoding]) => {
    const { contentType, explode } = asRecord(encoding);
    const type = text(contentType).split(",")[0]?.trim() ?? "";
    return [name, { ...(type !== "" && { mediaType: type }), explode: explode !== false }] as const;
  });
  return {
    mediaType,
    form,
    isRequired: body.required === true,
    fields: new Map(fields),
    schema: media.schema,
    description: text(body.description),
  };
}

/** What is sent where the description allows any type of this form. */
const concreteTypes: Readonly<Record<BodyForm, string>> = {
  json: "application/json",
  form: "application/x-www-form-urlencoded",
  multipart: "multipart/form-data",
  text: "text/plain",
  binary: "application/octet-stream",
};

function formOf(mediaType: string): BodyForm {
  const [type = ""] = mediaType.trim().toLowerCase().split(";");
  if (isJson(type) || type === "*/*" || type === "application/*") return "json";
  if (type === "multipart/form-data") return "multipart";
  if (type === "application/x-www-form-urlencoded") return "form";
  return type.startsWith("text/") || /[/+](?:xml|yaml|csv|javascript|graphql|x-ndjson)$/.test(type)
    ? "text"
    : "binary";
}

const fileText = "A file: its bytes in base64, or as a data: URL.";

/** The schema of a body's argument. Bytes are given as text, and the files of a form with their names. */
function bodySchema(schema: JsonSchemaObject, form: BodyForm, files: Set<string>): JsonSchemaObject {
  if (form === "binary") return { type: "string", description: fileText };
  if (form === "text") return schema.type === "string" ? schema : { type: "string" };
  if (form !== "multipart" || !isRecord(schema.properties)) return schema;
  const fields = Object.entries(schema.properties).map(([name, field]) => {
    const written = fileField(field);
    if (written !== field) files.add(name);
    return [name, written];
  });
  return { ...schema, properties: Object.fromEntries(fields) };
}

function fileField(field: unknown): unknown {
  if (!isRecord(field)) return field;
  if (field.type === "array") {
    const items = fileField(field.items);
    return items === field.items ? field : { ...field, items };
  }
  if (!isFile(field)) return field;
  const { description } = field;
  const said = typeof description === "string" ? `${description} ${fileText}` : fileText;
  const properties = {
    data: { type: "string", description: fileText },
    filename: { type: "string" },
    type: { type: "string" },
  };
  return {
    description: said,
    anyOf: [{ type: "string" }, { type: "object", properties, required: ["data"] }],
  };
}

/** Whether a field of a form holds bytes. OpenAPI 3.1 says so by the media type of the content. */
function isFile({ format, contentMediaType, contentEncoding, type }: Members): boolean {
  if (format === "binary") return true;
  return type !== "object" && contentMediaType !== undefined && contentEncoding === undefined;
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

function readSecurity(given: unknown): string[][] {
  if (!Array.isArray(given)) return [];
  const needs = given.map((one) => Object.keys(asRecord(one)));
  return needs.some((names) => names.length === 0) ? [] : needs;
}

function readSchemes(root: Members, schemas: DocumentSchemas): Map<string, SecurityScheme> {
  const given = Object.entries(asRecord(asRecord(root.components).securitySchemes));
  return new Map(
    given.map(([name, scheme]) => [name, schemeOf(asRecord(attempt(() => schemas.resolve(scheme))))]),
  );
}

function schemeOf({ type, in: place, name, scheme, flows }: Members): SecurityScheme {
  if (
    type === "apiKey" &&
    typeof name === "string" &&
    name !== "" &&
    (place === "query" || place === "cookie" || (place === "header" && isHeaderName(name)))
  )
    return { kind: "apiKey", place, name };
  const word = text(scheme).toLowerCase();
  if (type === "http" && (word === "bearer" || word === "basic")) return { kind: word };
  if (type === "oauth2" || type === "openIdConnect") {
    const { tokenUrl } = asRecord(asRecord(flows).clientCredentials);
    return { kind: "oauth2", ...(typeof tokenUrl === "string" && { tokenUrl }) };
  }
  return { kind: "unknown", text: [text(type), word].filter(Boolean).join(" ") || "without a type" };
}

/** A credential that is also listed as a parameter: a model must not be asked for it. */
function isCredential(
  { name, place }: DeclaredParameter,
  security: readonly (readonly string[])[],
  schemes: ReadonlyMap<string, SecurityScheme>,
): boolean {
  return security.flat().some((key) => {
    const scheme = schemes.get(key);
    if (scheme?.kind !== "apiKey" || scheme.place !== place) return false;
    return place === "header" ? scheme.name.toLowerCase() === name.toLowerCase() : scheme.name === name;
  });
}

function attempt<Result>(work: () => Result): Result | Error {
  try {
    return work();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(reasonOf(thrown));
  }
}

function sentence({ message }: Error): string {
  const end = /[.!?]$/.test(message) ? "" : ".";
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${end}`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value.trim() : "";
}
