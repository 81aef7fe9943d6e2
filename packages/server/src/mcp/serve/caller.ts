import { type CallClient, Tool, type ToolInfo } from "@toolrack/core";
import type { Grant } from "../../access/index.ts";
import { isMetaTool, type OfferingReader } from "../../calls/index.ts";
import type { RackItem } from "../../config/index.ts";

/** What an expert lets through, as `/mcp/{expert}` serves it. */
export interface ExpertView {
  readonly id: string;
  readonly name: string;
  readonly allow: (tool: ToolInfo) => boolean;
  /** Another one whenever `allow` may answer differently. */
  readonly version: string | number;
  /** What a client is told of it at the beginning. */
  readonly instructions?: string;
}

/** Undefined: there is no such expert. */
export type ExpertResolver = (nameOrId: string) => ExpertView | undefined;

/** Who calls the rack through MCP, and how much of it is there for them. */
export class Caller {
  readonly grant: Grant;
  expert: ExpertView | undefined;
  /** Of the expert's tools; undefined without one. */
  allow: ((tool: ToolInfo) => boolean) | undefined;
  /** The same for callers that see the same tools. */
  key: string;
  /** Whom a session or a state belongs to. */
  readonly identity: string;

  constructor(grant: Grant, expert?: ExpertView) {
    // Meta-tools show and reach nothing beyond what the caller may use, so that everybody may use them. Who may use an
    // expert may use its tools.
    const mayUse = (item: RackItem) => expert !== undefined || isMetaTool(item.name) || grant.mayUse(item);
    this.grant = grant.admin ? grant : { ...grant, mayUse };
    this.expert = expert;
    this.allow = allowedBy(expert);
    this.key = keyOf(grant, expert);
    // By its id: another expert that is given the same name later is another one.
    this.identity = `${grant.id}/${expert?.id ?? ""}`;
  }

  /** For one that stays connected: its expert is another one by now. Who came without an expert stays without. */
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

/** An expert speaks of tools: a prompt or resource is judged as a tool would be of which nothing is known but its name and origin. */
const unknownTool: ToolInfo = Tool.define({
  name: "unknown",
  description: "",
  parameters: { type: "object", properties: {} },
  execute: async () => "",
});

/** Whether an expert exists for this grant at all. A token may name it either way. */
export function mayUseExpert(grant: Grant, { id, name }: ExpertView): boolean {
  return grant.mayUseExpert(name) || grant.mayUseExpert(id);
}
