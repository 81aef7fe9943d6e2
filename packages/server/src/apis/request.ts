import { validateHeaderValue } from "node:http";
import { isRecord } from "../helpers/index.ts";
import type { RequestBody } from "./bodies.ts";
import type { Operation } from "./operations.ts";
import type { Parameter } from "./parameters.ts";

/** A request as it is sent, but without credentials. */
export interface ApiRequest {
  readonly method: string;
  readonly url: URL;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

type Arguments = Readonly<Record<string, unknown>>;

/** Writes the arguments of a call into a request. Throws an `Error` for a value that cannot stand in its place. */
export async function toRequest(operation: Operation, args: Arguments): Promise<ApiRequest> {
  const { method, parameters, server, body } = operation;
  const query: string[] = [];
  const cookies: string[] = [];
  const headers: Record<string, string> = {
    accept: "application/json, text/*;q=0.9, */*;q=0.8",
    "user-agent": "toolrack",
  };
  let path = operation.path;
  for (const parameter of parameters) {
    const value = given(args, parameter.argument);
    const isMissing = value === undefined || (value === null && !parameter.isJson);
    if (isMissing && parameter.place !== "path") continue;
    switch (parameter.place) {
      case "path":
        path = path.replaceAll(`{${parameter.name}}`, () => pathText(parameter, value));
        break;
      case "query":
        query.push(...queryParts(parameter, value));
        break;
      case "header":
        headers[parameter.name.toLowerCase()] = headerText(parameter, value);
        break;
      case "cookie":
        cookies.push(...queryParts(parameter, value));
    }
  }
  if (cookies.length > 0) headers.cookie = cookies.join("; ");
  const written = body === undefined ? undefined : await toBody(body, given(args, body.argument));
  if (written !== undefined) headers["content-type"] = written.mediaType;
  return { method, url: addressOf(server, path, query), headers, body: written?.content };
}

/** Every object also has members that nobody gave, such as `constructor`. */
function given(args: Arguments, argument: string): unknown {
  return Object.hasOwn(args, argument) ? args[argument] : undefined;
}

/** The path and the query behind the server's own. The result is always below the server's path, at its origin. */
function addressOf(server: string, path: string, query: readonly string[]): URL {
  const base = new URL(server);
  const url = new URL(base);
  url.pathname = `${base.pathname.replace(/\/$/, "")}${path.startsWith("/") ? "" : "/"}${path}`;
  url.search = [base.search.replace(/^\?/, ""), ...query].filter((part) => part !== "").join("&");
  return url;
}

/** Percent-encodes all but letters, digits and `-._~`. With `allowReserved`, signs such as `/` and `?` stay. */
function encode(text: string, allowReserved = false): string {
  const whole = encodeURIComponent(text.toWellFormed()).replace(/[!'()*]/g, hexOf);
  if (!allowReserved) return whole;
  // Signs that would end the value stay encoded: # ends the query, & and + separate and stand for spaces.
  return whole.replace(/%(?:3A|2F|3F|5B|5D|40|21|24|27|28|29|2A|2C|3B|3D)/g, decodeURIComponent);
}

function hexOf(sign: string): string {
  return `%${sign.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** A single value as text. A list or object inside another one has no form of its own, so it is written as JSON. */
function plain(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

/** Members without a value are left out. */
function membersOf(value: object): [string, unknown][] {
  return Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
}

function pathText({ argument, name, style, explode, isJson }: Parameter, value: unknown): string {
  const text = isJson ? encode(JSON.stringify(value ?? null)) : styledPath(name, style, explode, value ?? "");
  const bare = text.replace(/^[.;]/, "");
  if (bare === "")
    throw new Error(`The argument "${argument}" is part of the address and must not be empty.`);
  // A URL reads `.` and `..` as "this folder" and "one up", encoded or not.
  if (/^(?:\.|%2e){1,2}$/i.test(text))
    throw new Error(`The argument "${argument}" must not be "${plain(value)}".`);
  return text;
}

function styledPath(name: string, style: string, explode: boolean, value: unknown): string {
  const list = Array.isArray(value) ? value.map((item) => encode(plain(item))) : undefined;
  const members = isRecord(value)
    ? membersOf(value).map(([key, item]) => [encode(key), encode(plain(item))])
    : undefined;
  const pairs = members?.map((pair) => pair.join("="));
  const flat = list ?? members?.flat() ?? [encode(plain(value))];
  if (style === "label") return `.${(explode ? (pairs ?? flat) : flat).join(explode ? "." : ",")}`;
  if (style === "matrix") {
    if (!explode || (list === undefined && pairs === undefined)) return `;${encode(name)}=${flat.join(",")}`;
    return (pairs ?? flat.map((item) => `${encode(name)}=${item}`)).map((part) => `;${part}`).join("");
  }
  return (explode ? (pairs ?? flat) : flat).join(",");
}

/** The parts of a query, or of a cookie, that a parameter becomes. */
function queryParts({ name, style, explode, allowReserved, isJson }: Parameter, value: unknown): string[] {
  const write = (text: unknown) => encode(plain(text), allowReserved);
  const own = encode(name);
  if (isJson) return [`${own}=${encode(JSON.stringify(value), allowReserved)}`];
  if (style === "deepObject") return deepParts(own, value, write);
  const separator = style === "spaceDelimited" ? "%20" : style === "pipeDelimited" ? "%7C" : ",";
  if (Array.isArray(value)) {
    const items = value.filter((item) => item !== undefined && item !== null).map(write);
    if (explode) return items.map((item) => `${own}=${item}`);
    return items.length === 0 ? [] : [`${own}=${items.join(separator)}`];
  }
  if (!isRecord(value)) return [`${own}=${write(value)}`];
  const members = membersOf(value).map(([key, item]) => [encode(key), write(item)] as const);
  if (explode) return members.map(([key, item]) => `${key}=${item}`);
  return members.length === 0 ? [] : [`${own}=${members.flat().join(separator)}`];
}

/**
 * `name[key]=value`, at any depth. A list repeats its key; with `isNumbered`, and if it holds objects, whose members would
 * be mixed up, its items have numbers: `name[0][key]`.
 */
function deepParts(
  name: string,
  value: unknown,
  write: (value: unknown) => string,
  isNumbered = false,
): string[] {
  if (value === undefined || value === null) return [];
  if (typeof value !== "object") return [`${name}=${write(value)}`];
  const isPlainList = Array.isArray(value) && !isNumbered && !value.some((item) => typeof item === "object");
  return membersOf(value).flatMap(([key, item]) =>
    deepParts(isPlainList ? name : `${name}[${encode(key)}]`, item, write, isNumbered),
  );
}

function headerText({ argument, name, explode, isJson }: Parameter, value: unknown): string {
  const members = isRecord(value) ? membersOf(value).map(([key, item]) => [key, plain(item)]) : undefined;
  const text = isJson
    ? JSON.stringify(value)
    : Array.isArray(value)
      ? value.map(plain).join(",")
      : (members?.map((pair) => pair.join(explode ? "=" : ",")).join(",") ?? plain(value));
  try {
    validateHeaderValue(name, text);
    return text;
  } catch {
    throw new Error(
      `The argument "${argument}" cannot be sent as a header: it has a line break or signs that headers cannot hold.`,
    );
  }
}

interface WrittenBody {
  readonly content: string | Uint8Array;
  readonly mediaType: string;
}

async function toBody(
  { form, mediaType, argument, fields, files }: RequestBody,
  value: unknown,
): Promise<WrittenBody | undefined> {
  if (value === undefined) return undefined;
  switch (form) {
    case "json":
      return { content: JSON.stringify(value), mediaType };
    case "text":
      return { content: plain(value), mediaType };
    case "binary":
      return { content: bytesOf(value, argument).bytes, mediaType };
    case "form": {
      const parts = membersOf(Object(value)).flatMap(([name, item]) => {
        const { explode = true, isDeep = false } = fields.get(name) ?? {};
        if (isDeep) return deepParts(encode(name), item, (one) => encode(plain(one)), true);
        const list = Array.isArray(item) ? item.map(plain) : [plain(item)];
        const values = explode ? list : [list.join(",")];
        return values.map((one) => new URLSearchParams([[name, one]]).toString());
      });
      return { content: parts.join("&"), mediaType };
    }
    case "multipart": {
      const data = new FormData();
      for (const [name, item] of membersOf(Object(value)))
        for (const one of Array.isArray(item) ? item : [item])
          appendField(data, name, one, { isFile: files.has(name), mediaType: fields.get(name)?.mediaType });
      const encoded = new Response(data);
      // The type names the boundary between the parts.
      return { content: await encoded.bytes(), mediaType: encoded.headers.get("content-type") ?? mediaType };
    }
  }
}

interface Field {
  readonly isFile: boolean;
  readonly mediaType: string | undefined;
}

function appendField(data: FormData, name: string, value: unknown, { isFile, mediaType }: Field): void {
  if (isFile) {
    const { bytes, type } = bytesOf(value, name);
    const given = isRecord(value) ? value : {};
    const filename = typeof given.filename === "string" ? given.filename : name;
    data.append(
      name,
      new Blob([bytes], { type: typeof given.type === "string" ? given.type : (mediaType ?? type) }),
      filename,
    );
  } else if (mediaType === undefined && typeof value !== "object") data.append(name, String(value));
  // Objects are sent as JSON, as OpenAPI says.
  else data.append(name, new Blob([plain(value)], { type: mediaType ?? "application/json" }), "blob");
}

const base64 = /^[A-Za-z0-9+/_-]*={0,2}\s*$/;

/** The bytes of a file that is given in base64 or as a `data:` URL, alone or as `data` of an object. */
function bytesOf(
  value: unknown,
  argument: string,
): { readonly bytes: Uint8Array<ArrayBuffer>; readonly type: string } {
  const text = String(isRecord(value) ? value.data : value);
  const [, type, encoding, rest] = /^data:([^,;]*)((?:;[^,]*)?),(.*)$/is.exec(text) ?? [];
  const usual = type || "application/octet-stream";
  if (rest !== undefined && !/;base64$/i.test(encoding ?? ""))
    return { bytes: new Uint8Array(Buffer.from(decodeURIComponent(rest))), type: usual };
  const content = (rest ?? text).replace(/\s+/g, "");
  if (!base64.test(content)) throw new Error(`The argument "${argument}" must be base64 or a data: URL.`);
  return { bytes: new Uint8Array(Buffer.from(content, "base64")), type: usual };
}
