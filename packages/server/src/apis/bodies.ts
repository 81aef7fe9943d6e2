import type { JsonSchemaObject } from "@toolrack/core";
import { isJson } from "../access/index.ts";
import { asRecord, isRecord } from "../helpers/index.ts";
import { text } from "./parameters.ts";
import type { DocumentSchemas } from "./schemas.ts";

type Members = Readonly<Record<string, unknown>>;

/** How a body is written: as JSON, as the fields of a form, as text, or as bytes. */
export type BodyForm = "json" | "form" | "multipart" | "text" | "binary";

interface FormField {
  readonly mediaType?: string;
  /** A list repeats the field. */
  readonly explode: boolean;
  /** Objects and lists are written as `name[key]=value`. */
  readonly isDeep: boolean;
}

export interface RequestBody {
  /** The key of its argument. */
  readonly argument: string;
  readonly mediaType: string;
  readonly form: BodyForm;
  readonly isRequired: boolean;
  /** The fields of a form that hold files. */
  readonly files: ReadonlySet<string>;
  /** How the fields of a form are written, where the description says so. */
  readonly fields: ReadonlyMap<string, FormField>;
}

interface DeclaredBody extends Omit<RequestBody, "argument" | "files"> {
  readonly schema: unknown;
  readonly description: string;
}

export function readBody(schemas: DocumentSchemas, given: unknown, method: string): DeclaredBody | undefined {
  if (given === undefined || method === "GET" || method === "HEAD") return undefined;
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
    const { contentType, explode, style } = asRecord(encoding);
    const type = text(contentType).split(",")[0]?.trim() ?? "";
    const isDeep = style === "deepObject";
    return [name, { ...(type !== "" && { mediaType: type }), explode: explode !== false, isDeep }] as const;
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
export function bodySchema(schema: JsonSchemaObject, form: BodyForm, files: Set<string>): JsonSchemaObject {
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
