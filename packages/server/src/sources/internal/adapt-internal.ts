import { Tool, type ToolContext } from "@toolrack/core";
import type { FileVersion } from "../file-version.ts";
import type { RecognisedFile } from "../recognised.ts";
import type { InternalTool, InternalToolContext } from "./contract.ts";

/** What the workspace gives to handlers beside what every tool has. */
export type InternalSurroundings = Pick<InternalToolContext, "service" | "model" | "workspace"> & {
  readonly [name: string]: unknown;
};

/** Where a file lies: the folders below the tools folder, and its name without the ending. */
export interface FilePlace {
  readonly folders: readonly string[];
  readonly stem: string;
  /** Relative to the workspace. */
  readonly origin: string;
}

/** Contract 1: an object with a `handler`. The folder is the group, and the name is made of both. */
export function adaptInternal(
  exported: unknown,
  place: FilePlace,
  version: FileVersion,
  surroundings: InternalSurroundings,
): RecognisedFile | undefined {
  if (!isInternalTool(exported)) return undefined;
  const warnings: string[] = [];
  const group = place.folders.join("_");
  const prefix = group === "" ? "internal_" : `internal_${group}_`;
  const action = actionOf(exported, place, prefix, warnings);
  const { description, inputSchema, outputSchema, metadata } = exported;
  if (inputSchema === undefined)
    warnings.push("It has no inputSchema, so its arguments are not checked. Add one.");

  const info = Tool.define({
    name: prefix + action,
    description: description ?? "",
    parameters: inputSchema ?? { type: "object" },
    ...(outputSchema === undefined ? {} : { outputSchema }),
    metadata: { ...(group === "" ? {} : { category: group }), ...metadata },
    execute: (context) =>
      version.run(context, () => exported.handler(context.input as never, contextFor(context, surroundings))),
  });
  return { contract: "internal", tools: [{ ...info, origin: place.origin }], warnings };
}

function actionOf(tool: InternalTool, place: FilePlace, prefix: string, warnings: string[]): string {
  const written = typeof tool.name === "string" && tool.name.trim() !== "" ? tool.name.trim() : undefined;
  if (written === undefined) {
    warnings.push(`It has no name; the file name "${place.stem}" is used.`);
    return place.stem;
  }
  if (!written.startsWith("internal_")) return written;
  const action = written.startsWith(prefix)
    ? written.slice(prefix.length)
    : written.slice("internal_".length);
  warnings.push(
    `Its name "${written}" already has the prefix. Write "${action}": the folder gives the rest.`,
  );
  return action;
}

/** The call's own context, with the services and models of the host application in front of it. */
function contextFor(context: ToolContext, surroundings: InternalSurroundings): InternalToolContext {
  return Object.assign(Object.create(context), surroundings);
}

function isInternalTool(value: unknown): value is InternalTool {
  return typeof value === "object" && value !== null && typeof (value as InternalTool).handler === "function";
}
