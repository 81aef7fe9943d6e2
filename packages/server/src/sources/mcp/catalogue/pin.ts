import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../../json/is-record.ts";
import type { UpstreamTool } from "./catalogue.ts";
import { ownMember } from "./own-member.ts";

/** What a change of an upstream tool's definition leads to. `off`: nothing is remembered. */
export type PinningPolicy = "quarantine" | "trust" | "off";

/** The part of a tool's definition that was agreed to. */
export type PinnedDefinition = Omit<UpstreamTool, "_meta">;

/** One place in which a definition is not what was agreed to. */
export interface DefinitionChange {
  /** `description`, or a path such as `inputSchema.properties.path`. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

export function pinOf({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: UpstreamTool): PinnedDefinition {
  return {
    name,
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    inputSchema,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

/** Whatever the order of keys. Compared member by member: a fingerprint could be aimed at by whoever wrote both. */
export function samePin(one: PinnedDefinition, other: PinnedDefinition): boolean {
  return isDeepStrictEqual(one, other);
}

/** What stands for a definition where somebody says which one they agree to. */
export function hashOfPin(definition: PinnedDefinition): string {
  return createHash("sha256").update(sortedJson(definition)).digest("hex").slice(0, HASH_LENGTH);
}

/** 128 bits: short enough to be typed over, long enough that nobody finds a second definition for it. */
const HASH_LENGTH = 32;
const MOST_CHANGES = 50;

/** What a person must see to decide. */
export function differences(before: unknown, after: unknown, path = ""): DefinitionChange[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isRecord(before) || !isRecord(after)) {
    return [
      {
        path,
        ...(before === undefined ? {} : { before }),
        ...(after === undefined ? {} : { after }),
      },
    ];
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return keys
    .flatMap((key) =>
      differences(ownMember(before, key), ownMember(after, key), path === "" ? key : `${path}.${key}`),
    )
    .slice(0, MOST_CHANGES);
}

function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, member) =>
    isRecord(member)
      ? Object.fromEntries(Object.entries(member).sort(([one], [other]) => (one < other ? -1 : 1)))
      : member,
  );
}
