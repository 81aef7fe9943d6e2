import { compileSchema } from "../schema/compile-schema.ts";
import { isPromise } from "../schema/library-validator.ts";
import type { CompiledSchema } from "../schema/types.ts";
import { isRecord, reasonOf } from "../schema/visit.ts";
import {
  checkNameAndExecute,
  DefinitionError,
  implementationOf,
  metadataProblem,
  misplacedMetadata,
  type ToolImplementation,
} from "../tool/define.ts";
import { canonicalName } from "../tool/name.ts";
import type { ToolInfo, ToolMetadata } from "../tool/types.ts";

/** A registered tool with its compiled schemas. What it tells of the tool never changes. */
export class ToolEntry {
  readonly info: ToolInfo;
  /** The name in lower case: names that differ only in case are the same name. */
  readonly key: string;
  readonly schema: CompiledSchema;
  readonly output: CompiledSchema | undefined;
  readonly implementation: ToolImplementation;
  /** Whether the tool needs a context that can be copied. Found out at its first call. */
  keepsContext: boolean | undefined = undefined;

  constructor(info: ToolInfo) {
    this.info = info;
    this.key = fold(info.name);
    this.schema = compileSchema(info.parameters);
    this.output = info.outputSchema === undefined ? undefined : compileSchema(info.outputSchema);
    this.implementation = implementationOf(info.execute);
  }

  /** The tool's name and its aliases in lower case, the name first. */
  keys(): string[] {
    const aliases = this.info.aliases ?? [];
    return aliases.length === 0 ? [this.key] : [...new Set([this.key, ...aliases.map(fold)])];
  }

  with(updates: Partial<ToolInfo>): ToolEntry {
    return toEntry({ ...this.info, ...updates }, this.info.createdAt);
  }
}

/** Checks and normalizes a tool. Throws `DefinitionError`, which names the wrong field. */
export function toEntry(info: ToolInfo, createdAt: number = Date.now()): ToolEntry {
  const candidate: unknown = info;
  if (typeof candidate !== "object" || candidate === null) {
    throw new DefinitionError("A tool is an object made by Tool.define.", "info");
  }
  if (isPromise(candidate))
    throw new DefinitionError("This is a promise of a tool: await it, then register it.", "info");
  checkNameAndExecute(info.name, info.execute);
  checkMetadata(info);
  try {
    return new ToolEntry(normalise(info, createdAt));
  } catch (thrown) {
    const reason = reasonOf(thrown);
    throw new DefinitionError(
      `The tool "${info.name}" cannot be registered. ${reason}`,
      "parameters",
      thrown,
    );
  }
}

const isLimit = (value: unknown) => typeof value === "number" && value >= 0;
const isTexts = (value: unknown) => Array.isArray(value) && value.every((one) => typeof one === "string");
const limitForm = "a number of milliseconds, 0 for no limit";
const metadataForms: readonly (readonly [
  keyof ToolMetadata & string,
  (value: unknown) => boolean,
  string,
])[] = [
  ["timeout", isLimit, limitForm],
  ["idleTimeout", isLimit, limitForm],
  ["dangerous", (value) => typeof value === "boolean", "true or false"],
  ["confirm", (value) => typeof value === "string", "a text"],
  [
    "lane",
    (value) => typeof value === "string" && /^[A-Za-z0-9_-]{1,40}$/.test(value),
    "1 to 40 letters, digits, _ or -",
  ],
  ["permissions", isTexts, "a list of texts"],
  ["calls", isTexts, "a list of texts"],
  ["tags", isTexts, "a list of texts"],
];

/** A value of the wrong kind would have no effect, so that a tool might run unasked. */
function checkMetadata(info: ToolInfo): void {
  const { name, metadata = {} } = info;
  const [misplaced] = misplacedMetadata(info);
  if (misplaced !== undefined) throw new DefinitionError(metadataProblem(name, misplaced), misplaced);
  if (!isRecord(metadata))
    throw new DefinitionError(`The metadata of the tool "${name}" must be an object.`, "metadata");
  for (const [field, fits, form] of metadataForms) {
    if (metadata[field] === undefined || fits(metadata[field])) continue;
    throw new DefinitionError(`The ${field} of the tool "${name}" must be ${form}.`, `metadata.${field}`);
  }
}

export function fold(name: string): string {
  return name.toLowerCase();
}

/** A name that the rack cannot use is rewritten; the original stays as an alias and display name. */
function normalise(info: ToolInfo, createdAt: number): ToolInfo {
  const name = canonicalName(info.name);
  const isRenamed = name !== info.name;
  const aliases = isRenamed ? [...(info.aliases ?? []), info.name] : info.aliases;
  return Object.freeze({
    ...info,
    ...(aliases !== undefined && { aliases: Object.freeze([...aliases]) }),
    ...(isRenamed && { displayName: info.displayName ?? info.name }),
    name,
    metadata: freezeMetadata(info.metadata),
    createdAt,
    disabled: info.disabled === true,
  });
}

/** Copies the lists: the indexes depend on them, so nobody may change them later. */
function freezeMetadata(metadata: ToolMetadata = {}): ToolMetadata {
  const { tags, permissions } = metadata;
  return Object.freeze({
    ...metadata,
    ...(Array.isArray(tags) ? { tags: Object.freeze([...tags]) } : {}),
    ...(Array.isArray(permissions) ? { permissions: Object.freeze([...permissions]) } : {}),
  });
}
