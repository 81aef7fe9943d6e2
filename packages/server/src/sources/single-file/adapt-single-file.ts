import { canonicalName, Tool, type ToolContext, type ToolInfo, type ToolMetadata } from "@toolrack/core";
import type { FilePlace } from "../internal/adapt-internal.ts";
import { isReservedName } from "../skills/reserved-names.ts";
import type { Description, SingleFileManual } from "./description.ts";

/** The name on the rack. */
export function nameOf({ metadata }: Description): string {
  return canonicalName(metadata.id);
}

/** The tool as the registry holds it. */
export function adaptSingleFile(
  description: Description,
  place: FilePlace,
  hosts: readonly string[],
  run: (context: ToolContext<never>) => Promise<unknown>,
): ToolInfo {
  const { metadata, parameters } = description;
  const name = nameOf(description);
  const info = Tool.define({
    name,
    description: metadata.description,
    parameters,
    ...(metadata.name === undefined || metadata.name === name ? {} : { displayName: metadata.name }),
    ...aliasesOf(description, place),
    metadata: metadataOf(description, place, hosts),
    execute: run as (context: ToolContext) => Promise<unknown>, // What it is given was validated by the pipeline.
  });
  return { ...info, origin: place.origin };
}

/** The id when it cannot be a name as it is, the file's name, and what the author says, but for the rack's own names. */
function aliasesOf({ metadata }: Description, { stem }: FilePlace): { aliases?: string[] } {
  const name = canonicalName(metadata.id);
  const declared = Array.isArray(metadata.aliases) ? metadata.aliases.map(String) : [];
  const aliases = [metadata.id, stem.replace(/\.tool$/, ""), ...declared];
  const others = [...new Set(aliases)].filter(
    (alias) => alias.toLowerCase() !== name.toLowerCase() && !isReservedName(alias),
  );
  return others.length === 0 ? {} : { aliases: others };
}

/** Said elsewhere in the tool's info, or acted on by the core in a form that was not checked. */
const taken = new Set(
  "id name description aliases examples network hosts permissions loop outputCheck singleFile".split(" "),
);

function metadataOf(description: Description, place: FilePlace, hosts: readonly string[]): ToolMetadata {
  const { metadata, environment, dependencies, businessErrors, bridges } = description;
  const { examples, permissions } = metadata;
  const manual: SingleFileManual = {
    ...(environment === undefined ? {} : { environment }),
    dependencies,
    businessErrors,
    bridges,
    hosts,
    examples: Array.isArray(examples) ? examples : [],
  };
  return {
    ...(place.folders.length === 0 ? {} : { category: place.folders.join("/") }),
    ...Object.fromEntries(Object.entries(metadata).filter(([key]) => !taken.has(key))),
    ...(Array.isArray(permissions) ? { permissions: permissions.map(String) } : {}),
    singleFile: manual,
  };
}
