import type { ToolInfo } from "@toolrack/core";
import type { Grant } from "../../../auth/grant.ts";
import { isMetaTool } from "../../../meta-tools/meta-tools.ts";
import { readResultName } from "./read-result-tool.ts";

/** The expert as whom somebody talks. */
export interface ChatExpert {
  readonly id: string;
  readonly name: string;
  readonly instructions?: string;
  allows(tool: ToolInfo): boolean;
}

/** Who talks to a model, and which tools there are for them. */
export interface ChatReach {
  readonly grant: Grant;
  readonly allow?: (tool: ToolInfo) => boolean;
  readonly expert?: ChatExpert;
}

/** Tools that show and reach nothing beyond what their caller may use, so that everybody may use them. */
export function isHelper(name: string): boolean {
  return isMetaTool(name) || name === readResultName;
}

/** A bearer who may use an expert may use the tools of it, and no others there. */
export function chatReach(grant: Grant, expert?: ChatExpert): ChatReach {
  if (expert !== undefined) {
    const allow = (tool: ToolInfo) => isHelper(tool.name) || expert.allows(tool);
    return { grant: { ...grant, mayUse: () => true }, allow, expert };
  }
  if (grant.admin) return { grant };
  return { grant: { ...grant, mayUse: (tool) => isHelper(tool.name) || grant.mayUse(tool) } };
}

export function sees({ grant, allow }: ChatReach, tool: ToolInfo): boolean {
  return grant.mayUse(tool) && allow?.(tool) !== false;
}
