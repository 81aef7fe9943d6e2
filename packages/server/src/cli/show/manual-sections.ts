import type { JsonSchemaObject, ToolInfo } from "@toolrack/core";
import { programWords } from "../program-words.ts";
import { oneLine } from "../text/printable.ts";

/** What a sandboxed tool says beside its parameters, each part with the rows of a table. */
export interface ManualSection {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly string[][];
}

interface Manual {
  readonly environment?: JsonSchemaObject;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly businessErrors?: readonly Readonly<Record<string, unknown>>[];
  readonly bridges?: readonly string[];
  readonly hosts?: readonly string[];
  readonly examples?: readonly unknown[];
}

/** Whether the tool runs in the sandbox, and so can be tried without consequences. */
export function manualOf({ metadata }: ToolInfo): Manual | undefined {
  const { singleFile } = metadata;
  return typeof singleFile === "object" && singleFile !== null ? singleFile : undefined;
}

/** The parts of the manual that have something to say. */
export function manualSections(info: ToolInfo): ManualSection[] {
  const manual = manualOf(info);
  if (manual === undefined) return [];
  const { dependencies = {}, businessErrors = [], bridges = [], hosts = [], examples = [] } = manual;
  return [
    {
      title: "Environment",
      head: ["NAME", "TYPE", "", "DEFAULT", "DESCRIPTION", "SET WITH"],
      rows: environmentRows(info.name, manual.environment),
    },
    {
      title: "Dependencies",
      head: ["PACKAGE", "VERSION"],
      rows: Object.entries(dependencies).map(([name, version]) => [oneLine(name), oneLine(version)]),
    },
    { title: "Network", head: ["HOST"], rows: hosts.map((host) => [oneLine(host)]) },
    {
      title: "Business errors",
      head: ["CODE", "DESCRIPTION", "WHEN", "SOLUTION", "RETRY"],
      rows: businessErrors.map(({ code, description, match, solution, retryable }) => [
        ...[code, description, match, solution].map((part) => oneLine(String(part ?? ""))),
        retryable === true ? "yes" : "no",
      ]),
    },
    { title: "Replaced in a dry run", head: ["BRIDGE"], rows: bridges.map((name) => [oneLine(name)]) },
    {
      title: "Examples of the author",
      head: ["EXAMPLE"],
      rows: examples.map((example) => [
        oneLine(typeof example === "string" ? example : String(JSON.stringify(example))),
      ]),
    },
  ].filter(({ rows }) => rows.length > 0);
}

function environmentRows(tool: string, schema: JsonSchemaObject = {}): string[][] {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = (schema.properties ?? {}) as Record<string, JsonSchemaObject>; // Checked when it was loaded.
  return Object.entries(properties).map(([name, property]) => [
    oneLine(name),
    oneLine([property.type ?? "any"].flat().join(" or ")),
    required.includes(name) ? "required" : "",
    "default" in property ? oneLine(JSON.stringify(property.default)) : "",
    oneLine(typeof property.description === "string" ? property.description : ""),
    `${programWords()} secrets set ${tool} ${name}`,
  ]);
}
