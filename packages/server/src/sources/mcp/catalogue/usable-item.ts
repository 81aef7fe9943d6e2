import { isRecord } from "../../../json/is-record.ts";
import { isReservedFrom } from "../../../offerings/reserved-schemes.ts";
import { isUsableTemplate } from "../../../offerings/uri-template.ts";
import { cleanText } from "./clean-text.ts";

/** An item of a list as the server gave it, or a part of one. */
export type Listed = Readonly<Record<string, unknown>>;

/** The hints of a tool about itself. Those of a wrong type are left out. */
export function usableAnnotations(given: unknown): Listed | undefined {
  if (!isRecord(given)) return undefined;
  const entries = Object.entries(given).flatMap(([key, value]) => {
    if (key === "title") return typeof value === "string" ? [[key, cleanText(value)]] : [];
    return !/Hint$/.test(key) || typeof value === "boolean" ? [[key, value]] : [];
  });
  return Object.fromEntries(entries);
}

/** A prompt such that everybody can read it; a text says why it cannot be used. */
export function usablePrompt(item: Listed): Listed | string {
  const { name, arguments: args } = item;
  if (typeof name !== "string" || name === "") return "It has no name.";
  if (args === undefined || args === null) return { name, ...described(item) };
  if (!Array.isArray(args) || !args.every((one) => isRecord(one) && typeof one.name === "string")) {
    return "Its arguments are not a list of things with names, so nobody could fill them in.";
  }
  return { name, ...described(item), arguments: args.map(usableArgument) };
}

export function usableResource(item: Listed): Listed | string {
  const { uri, name, size } = item;
  if (typeof uri !== "string" || uri === "") return "It has no uri.";
  if (isReservedFrom(SOURCE, uri)) return reserved(uri);
  return {
    uri,
    name: typeof name === "string" ? cleanText(name) : uri,
    ...described(item),
    ...(typeof size === "number" ? { size } : {}),
  };
}

export function usableTemplate(item: Listed): Listed | string {
  const { uriTemplate, name } = item;
  if (typeof uriTemplate !== "string" || uriTemplate === "") return "It has no uriTemplate.";
  if (isReservedFrom(SOURCE, uriTemplate)) return reserved(uriTemplate);
  if (!isUsableTemplate(uriTemplate)) {
    return "Its uriTemplate cannot be matched with addresses: it must begin with a scheme such as docs://, have a name in each {…}, some text between two of them where the second begins with none of / ? & ; . #, at most 32 of them, and at most 1,024 characters.";
  }
  return { uriTemplate, name: typeof name === "string" ? cleanText(name) : uriTemplate, ...described(item) };
}

/** Whichever upstream server it is: none of them has a scheme of its own. */
const SOURCE = "mcp:";

function reserved(uri: string): string {
  return `Its address begins with ${uri.slice(0, uri.indexOf(":"))}:, which only the rack itself answers for.`;
}

function usableArgument({ name, title, description, required }: Listed): Listed {
  return {
    name,
    ...(typeof title === "string" ? { title: cleanText(title) } : {}),
    ...(typeof description === "string" ? { description: cleanText(description) } : {}),
    ...(typeof required === "boolean" ? { required } : {}),
  };
}

/** What a server says about a thing, with what is hidden in its texts taken out. */
function described({ title, description, mimeType, annotations, icons, _meta }: Listed): Listed {
  const pictures = Array.isArray(icons) ? icons.filter(isIcon) : [];
  return {
    ...(typeof title === "string" ? { title: cleanText(title) } : {}),
    ...(typeof description === "string" ? { description: cleanText(description) } : {}),
    ...(typeof mimeType === "string" ? { mimeType } : {}),
    ...(isRecord(annotations) ? { annotations: usableNotes(annotations) } : {}),
    ...(pictures.length === 0 ? {} : { icons: pictures }),
    ...(isRecord(_meta) ? { _meta } : {}),
  };
}

const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** For whom a resource is, how much it matters, and when it changed. */
function usableNotes({ audience, priority, lastModified }: Listed): Listed {
  const isAudience =
    Array.isArray(audience) && audience.every((one) => one === "user" || one === "assistant");
  const isPriority = typeof priority === "number" && priority >= 0 && priority <= 1;
  const isMoment = typeof lastModified === "string" && moment.test(lastModified);
  return {
    ...(isAudience ? { audience } : {}),
    ...(isPriority ? { priority } : {}),
    ...(isMoment && !Number.isNaN(Date.parse(lastModified)) ? { lastModified } : {}),
  };
}

function isIcon(icon: unknown): boolean {
  if (!isRecord(icon)) return false;
  const { src, mimeType, sizes, theme } = icon;
  return (
    typeof src === "string" &&
    (mimeType === undefined || typeof mimeType === "string") &&
    (sizes === undefined || (Array.isArray(sizes) && sizes.every((size) => typeof size === "string"))) &&
    (theme === undefined || theme === "light" || theme === "dark")
  );
}
