import type { Document } from "yaml";

type Map = Readonly<Record<string, unknown>>;

/**
 * The YAML of a map with other values. Only what differs is written anew: numbers keep their digits, texts their quotes,
 * and comments stay. Throws for what is no map, and where an alias would lose what it stands for.
 */
export async function rewriteYaml(source: string, wanted: Map): Promise<string> {
  const { parseDocument, stringify } = await import("yaml");
  const known = JSON.parse(JSON.stringify(parseDocument(source).toJS({ maxAliasCount: 20 }))) as unknown;
  if (!isMap(known)) throw new Error("The YAML is no map.");
  // In this schema every scalar is the text that it is, and is written back so.
  const document = parseDocument(source, { schema: "failsafe" });
  const toNode = (value: unknown) =>
    parseDocument(stringify(value, { lineWidth: 0 }), { schema: "failsafe" }).contents;
  if (!edit(document, [], known, wanted, toNode)) return source;
  return document.toString({ lineWidth: 0 });
}

/** Whether anything had to be changed. */
function edit(
  document: Document.Parsed,
  path: readonly string[],
  old: Map,
  wanted: Map,
  toNode: (value: unknown) => unknown,
): boolean {
  let isChanged = false;
  for (const [key, value] of Object.entries(wanted)) {
    const before = old[key];
    if (value === undefined || JSON.stringify(before) === JSON.stringify(value)) continue;
    const own = [...path, key];
    if (isMap(before) && isMap(value)) isChanged = edit(document, own, before, value, toNode) || isChanged;
    else {
      document.setIn(own, toNode(value));
      isChanged = true;
    }
  }
  for (const key of Object.keys(old).filter((name) => wanted[name] === undefined)) {
    document.deleteIn([...path, key]);
    isChanged = true;
  }
  return isChanged;
}

function isMap(value: unknown): value is Map {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
