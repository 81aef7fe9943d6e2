import type { ToolOverride } from "../../store/mcp-servers/mcp-server-store.ts";
import type { RefusedItem } from "./catalogue/catalogue.ts";
import { ownMember } from "./catalogue/own-member.ts";
import { hashOfPin, pinOf } from "./catalogue/pin.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import { isOffered } from "./catalogue/to-tool.ts";
import type { ToolPin } from "./catalogue/tool-pins.ts";
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
  /** What is wrong with its entry as it is written now; it goes on as the entry last said. */
  readonly problem?: string;
  /** With secrets masked. */
  readonly entry: object;
  readonly since: number;
  /** That can be used. */
  readonly tools: number;
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
  readonly changes: ToolPin["changes"];
  readonly approvedAt?: number;
  readonly approvedBy?: string;
  readonly override: ToolOverride;
}

export function viewOf(server: ManagedServer): McpServerView {
  const { key, wanted, upstream, tools, pins, signIn } = server;
  const { catalogue, status } = upstream;
  return {
    ...status,
    key,
    place: wanted.place,
    enabled: wanted.isEnabled,
    ...(wanted.problem === undefined ? {} : { problem: wanted.problem }),
    entry: shownEntry(wanted.invalid?.given ?? wanted.entry),
    tools: wanted.isEnabled ? tools.names.length : 0,
    quarantined: catalogue.tools.filter((tool) => pins.of(tool).state === "quarantined").length,
    prompts: catalogue.prompts.length,
    resources: catalogue.resources.length + catalogue.templates.length,
    refused: server.refused,
    ...(signIn === undefined ? {} : { signIn: signIn.view }),
  };
}

/** In the order of the server. */
export function toolViewsOf(server: ManagedServer, names: Pick<RackNames, "nameOf">): McpToolView[] {
  const { rename = {}, ...choices } = server.wanted.entry.toolrack?.tools ?? {};
  return server.upstream.catalogue.tools.map((tool) => {
    const { name, description } = tool;
    const { state, changes, approvedAt, approvedBy, override } = server.pins.of(tool);
    const rackName = names.nameOf(server.key, override.rename ?? ownMember(rename, name) ?? name);
    return {
      name,
      rackName,
      ...(description === undefined ? {} : { description }),
      hash: hashOfPin(pinOf(tool)),
      offered: isOffered(choices, name) && !server.leftOut.has(name),
      pin: state,
      changes,
      ...(approvedAt === undefined ? {} : { approvedAt }),
      ...(approvedBy === undefined ? {} : { approvedBy }),
      override,
    };
  });
}
