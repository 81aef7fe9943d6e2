import { type CallClient, Tool, type ToolInfo } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import { isMetaTool, type OfferingReader } from "../../calls/index.ts";
import type { RackItem } from "../../config/index.ts";

/** The part of the rack that `/mcp/{expert}` serves. */
export interface ExpertView {
  readonly id: string;
  readonly name: string;
  readonly allow: (tool: ToolInfo) => boolean;
  /** Changes whenever `allow` may answer differently. */
  readonly version: string | number;
  /** Sent to clients when they connect. */
  readonly instructions?: string;
}

/** Undefined: there is no such expert. */
export type ExpertResolver = (nameOrId: string) => ExpertView | undefined;

/** Who calls the rack through MCP, and what they may see and use. */
export class Caller {
  readonly grant: Grant;
  expert: ExpertView | undefined;
  /** Of the expert's tools; undefined without one. */
  allow: ((tool: ToolInfo) => boolean) | undefined;
  /** Equal for callers that see the same tools. */
  key: string;
  /** Names the owner of a session or a `requestState`. */
  readonly identity: string;

  constructor(grant: Grant, expert?: ExpertView) {
    // Everybody may use the meta-tools, because they reach only what the caller may use. Whoever may use an expert may
    // use its tools.
    const mayUse = (item: RackItem) => expert !== undefined || isMetaTool(item.name) || grant.mayUse(item);
    this.grant = grant.admin ? grant : { ...grant, mayUse };
    this.expert = expert;
    this.allow = allowedBy(expert);
    this.key = keyOf(grant, expert);
    // By id, because a later expert may get the same name.
    this.identity = `${grant.id}/${expert?.id ?? ""}`;
  }

  /** Gives a connected caller the new version of its expert. A caller without an expert stays without. */
  renew(expert: ExpertView | undefined): void {
    if (expert === undefined || this.expert === undefined) return;
    if (expert.version === this.expert.version && expert.name === this.expert.name) return;
    this.expert = expert;
    this.allow = allowedBy(expert);
    this.key = keyOf(this.grant, expert);
  }

  sees(tool: ToolInfo): boolean {
    return (this.grant.admin || this.grant.mayUse(tool)) && this.allow?.(tool) !== false;
  }

  reader(signal: AbortSignal, client?: CallClient): OfferingReader {
    const { grant, expert } = this;
    return {
      caller: grant.caller,
      mayUse: (item) => grant.mayUse(item) && expert?.allow({ ...unknownTool, ...item }) !== false,
      ...(expert === undefined ? {} : { expert: expert.name }),
      ...(client === undefined ? {} : { client }),
      signal,
    };
  }
}

function allowedBy(expert: ExpertView | undefined): Caller["allow"] {
  return expert && ((tool) => isMetaTool(tool.name) || expert.allow(tool));
}

function keyOf({ admin, id }: Grant, expert: ExpertView | undefined): string {
  const seen = expert === undefined ? "" : `${expert.name}@${expert.version}`;
  return `${admin ? "admin" : id}/${seen}`;
}

/** Experts judge only tools. A prompt or resource is judged like a tool of which only the name and origin are known. */
const unknownTool: ToolInfo = Tool.define({
  name: "unknown",
  description: "",
  parameters: { type: "object", properties: {} },
  execute: async () => "",
});

/** A token may name an expert by its name or its id. */
export function mayUseExpert(grant: Grant, { id, name }: ExpertView): boolean {
  return grant.mayUseExpert(name) || grant.mayUseExpert(id);
}
