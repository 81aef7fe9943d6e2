import { validateHeaderName } from "node:http";
import { isJson } from "../access/index.ts";
import { asRecord, reasonOf } from "../helpers/index.ts";
import type { DocumentSchemas } from "./schemas.ts";

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

/** Headers that describe the body or the caller. By the rules of OpenAPI they are no parameters. */
const ownHeaders = /^(?:accept|content-type|authorization)$/i;
/** Headers that say where a message ends and where it goes. A caller who chose them could send a second request. */
const carryingHeaders =
  /^(?:host|content-length|content-encoding|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*)$/i;

export interface DeclaredParameter extends Omit<Parameter, "argument"> {
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
export function readParameters(schemas: DocumentSchemas, ...lists: readonly unknown[]): DeclaredParameter[] {
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

export function isHeaderName(name: string): boolean {
  return !carryingHeaders.test(name) && !(attempt(() => validateHeaderName(name)) instanceof Error);
}

/** The entry's own headers are sent in any case, so nobody is asked for them. */
export function isGiven({ name, place }: DeclaredParameter, headers: object): boolean {
  return place === "header" && Object.hasOwn(headers, name.toLowerCase());
}

function isPlace(place: unknown): place is ParameterPlace {
  return typeof place === "string" && Object.hasOwn(usualStyles, place);
}

/** Names each parameter's argument: by its name, with its place before it where two parameters have one name. */
export function withArguments(declared: readonly DeclaredParameter[]): Parameter[] {
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

export function freeName(candidates: readonly string[], taken: Readonly<Record<string, unknown>>): string {
  const free = candidates.find((name) => !Object.hasOwn(taken, name) && name !== "__proto__");
  if (free === undefined) throw new Error(`two of its parameters have the name "${candidates[0]}"`);
  return free;
}

/** Every `{name}` of the path needs a parameter, and the other way round. */
export function requirePathParameters(path: string, parameters: readonly Parameter[]): void {
  const named = new Set([...path.matchAll(/\{([^{}]*)\}/g)].map(([, name]) => name));
  const given = parameters.filter(({ place }) => place === "path").map(({ name }) => name);
  const missing = [...named].find((name) => !given.includes(name ?? ""));
  if (missing !== undefined) throw new Error(`its path has {${missing}}, and no parameter says what that is`);
  const unused = given.find((name) => !named.has(name));
  if (unused !== undefined) throw new Error(`its path parameter "${unused}" does not stand in the path`);
}

export function attempt<Result>(work: () => Result): Result | Error {
  try {
    return work();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(reasonOf(thrown));
  }
}

export function text(value: unknown): string {
  return typeof value === "string" ? value.trim() : "";
}
