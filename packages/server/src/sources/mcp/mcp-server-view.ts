import type { ToolOverride } from "../../store/mcp-servers/mcp-server-store.ts";
import type { RefusedItem } from "./catalogue/catalogue.ts";
import { ownMember } from "./catalogue/own-member.ts";
import { hashOfPin, pinOf } from "./catalogue/pin.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import { isOffered } from "./catalogue/to-tool.ts";
import type { ToolPin } from "./catalogue/tool-pins.ts";
import { type UncheckedItem, uncheckedIn } from "./catalogue/usable-schema.ts";
import { shownEntry } from "./config/shown-entry.ts";
import type { ManagedServer } from "./managed-server.ts";
import type { SignInView } from "./sign-in/sign-in.ts";
import type { UpstreamStatus } from "./upstream-status.ts";

/** A server as people and programs see it. */
export interface McpServerView extends Omit<UpstreamStatus, "since"> {
  readonly key: string;
  /** `file`: it stands in `mcp.json` and is changed there. */
  readonly place: "file" | "store";
  readonly enabled: boolean;
  /**
   * What is wrong with its entry as it is written now, while it goes on as the entry last said; otherwise, which of its
   * lists were not read to their ends, and why.
   */
  readonly problem?: string;
  /** What the problem is with. */
  readonly problemOf?: "entry" | "lists";
  /** The last line that its process wrote, while it cannot be used. */
  readonly lastWord?: string;
  /** With secrets masked. */
  readonly entry: object;
  readonly since: number;
  /** That can be used. */
  readonly tools: number;
  /** Those that its entry lets in and that cannot be used; why, is in `refused`. */
  readonly leftOut: number;
  readonly quarantined: number;
  readonly prompts: number;
  readonly resources: number;
  /** Tools, prompts and resources that it lists and that cannot be used. */
  readonly refused: readonly RefusedItem[];
  /** Only of a server at an address that is sent no credentials of its entry. */
  readonly signIn?: SignInView;
}

export interface McpToolView {
  /** As the server names it. */
  readonly name: string;
  /** As the rack names it. */
  readonly rackName: string;
  readonly description?: string;
  /** Stands for its definition as it is now: who approves says with it what they have seen. */
  readonly hash: string;
  /** Whether the entry lets it in, and it can be used. */
  readonly offered: boolean;
  readonly pin: ToolPin["state"];
  /** Of a tool that is offered: what of its schemas is not checked here. */
  readonly unchecked: readonly UncheckedItem[];
  readonly changes: ToolPin["changes"];
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override: ToolOverride;
}

export function viewOf(server: ManagedServer): McpServerView {
  const { key, wanted, upstream, tools, pins, signIn } = server;
  const { catalogue, status, lastWord } = upstream;
  return {
    ...status,
    key,
    place: wanted.place,
    enabled: wanted.isEnabled,
    ...problemOf(wanted.problem, catalogue.cut),
    ...(lastWord === undefined ? {} : { lastWord }),
    entry: shownEntry(wanted.invalid?.given ?? wanted.entry),
    tools: wanted.isEnabled ? tools.names.length : 0,
    leftOut: server.leftOut.size,
    quarantined: catalogue.tools.filter((tool) => pins.of(tool).state === "quarantined").length,
    prompts: catalogue.prompts.length,
    resources: catalogue.resources.length + catalogue.templates.length,
    refused: server.refused,
    ...(signIn === undefined ? {} : { signIn: signIn.view }),
  };
}

function problemOf(
  ofEntry: string | undefined,
  ofLists: readonly string[] | undefined,
): Pick<McpServerView, "problem" | "problemOf"> {
  if (ofEntry !== undefined) return { problem: ofEntry, problemOf: "entry" };
  return ofLists === undefined ? {} : { problem: ofLists.join(" "), problemOf: "lists" };
}

/** In the order of the server. */
export function toolViewsOf(server: ManagedServer, names: Pick<RackNames, "nameOf">): McpToolView[] {
  const { rename = {}, ...choices } = server.wanted.entry.toolrack?.tools ?? {};
  return server.upstream.catalogue.tools.map((tool) => {
    const { name, description } = tool;
    const { state, changes, approvedAt, approvedBy, override } = server.pins.of(tool);
    const rackName = names.nameOf(server.key, override.rename ?? ownMember(rename, name) ?? name);
    const offered = isOffered(choices, name) && !server.leftOut.has(name);
    return {
      name,
      rackName,
      ...(description === undefined ? {} : { description }),
      hash: hashOfPin(pinOf(tool)),
      offered,
      pin: state,
      unchecked: offered ? uncheckedIn(tool) : [],
      changes,
      ...(approvedAt === undefined ? {} : { approvedAt }),
      ...(approvedBy === undefined ? {} : { approvedBy }),
      override,
    };
  });
}
