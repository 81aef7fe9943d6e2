import type { ToolInfo } from "@toolrack/core";
import { builtinTools } from "../../internal-tools/index.ts";
import { FileVersion } from "../file-version.ts";
import { StackMapper } from "../loader/stack-mapper.ts";
import { adaptInternal, type InternalSurroundings } from "./adapt-internal.ts";

/** The built-in tools, adapted like any other tool of contract 1. */
export function loadBuiltins(surroundings: InternalSurroundings): ToolInfo[] {
  const stacks = new StackMapper();
  return Object.entries(builtinTools).flatMap(([group, tools]) =>
    tools.flatMap((tool) => {
      const origin = `built-in ${group}/${tool.name}`;
      const place = { folders: [group], stem: tool.name, origin };
      return adaptInternal(tool, place, new FileVersion(origin, stacks), surroundings)?.tools ?? [];
    }),
  );
}
