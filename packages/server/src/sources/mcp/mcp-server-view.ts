import { redact } from "@toolrack/core";
import { isRecord } from "../../json/is-record.ts";
import type { ToolOverride } from "../../store/mcp-servers/mcp-server-store.ts";
import type { RefusedItem } from "./catalogue/catalogue.ts";
import { ownMember } from "./catalogue/own-member.ts";
import { hashOfPin, pinOf } from "./catalogue/pin.ts";
import { isOffered } from "./catalogue/to-tool.ts";
import { rackNameOf } from "./catalogue/tool-names.ts";
import type { ToolPin } from "./catalogue/tool-pins.ts";
import type { ManagedServer } from "./managed-server.ts";
import type { SignInView } from "./sign-in/sign-in.ts";
import type { UpstreamStatus } from "./upstream-status.ts";

/** A server as people and programs see it. */
export interface McpServerView extends Omit<UpstreamStatus, "since"> {
  readonly key: string;
  /** `file`: it stands in `mcp.json` and is changed there. */
  readonly place: "file" | "store";
  readonly enabled: boolean;
  /** With secrets masked. */
  readonly entry: object;
  readonly since: number;
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
    entry: redact(masked(wanted.invalid?.given ?? wanted.entry)) as object,
    tools: tools.names.length,
    quarantined: catalogue.tools.filter(({ name }) => pins.of(name).state === "quarantined").length,
    prompts: catalogue.prompts.length,
    resources: catalogue.resources.length + catalogue.templates.length,
    refused: server.refused,
    ...(signIn === undefined ? {} : { signIn: signIn.view }),
  };
}

/** In the order of the server. `keys` are those of all servers. */
export function toolViewsOf(server: ManagedServer, keys: Iterable<string>): McpToolView[] {
  const { rename = {}, ...choices } = server.wanted.entry.toolrack?.tools ?? {};
  const all = [...keys];
  return server.upstream.catalogue.tools.map((tool) => {
    const { name, description } = tool;
    const { state, changes, approvedAt, approvedBy, override } = server.pins.of(name);
    const rackName = rackNameOf(server.key, override.rename ?? ownMember(rename, name) ?? name, all);
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

/** A word and references, such as `Bearer ${secret:NAME}`; a default inside one would be a value again. */
const reference = /^(?:\w+ )?(?:\$\{[\w:.-]+\})+$/;

/**
 * Values of variables and headers may be secrets that somebody wrote down in clear; a reference to one is none. An entry
 * that is not valid may hold anything, and is shown as far as it has the form of one.
 */
function masked(entry: unknown): object {
  if (!isRecord(entry)) return {};
  const { env, headers, toolrack } = entry;
  return {
    ...entry,
    ...(env === undefined ? {} : { env: hidden(env) }),
    ...(headers === undefined ? {} : { headers: hidden(headers) }),
    ...(isRecord(toolrack) && toolrack.oauth !== undefined
      ? { toolrack: { ...toolrack, oauth: withoutSecret(toolrack.oauth) } }
      : {}),
  };
}

function withoutSecret(oauth: unknown): unknown {
  if (!isRecord(oauth)) return hidden(oauth);
  const { clientSecret, ...rest } = oauth;
  return clientSecret === undefined ? rest : { ...rest, clientSecret: hidden(clientSecret) };
}

function hidden(value: unknown): unknown {
  if (isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, hidden(inner)]));
  }
  const isReference = typeof value === "string" && reference.test(value) && !value.includes(":-");
  return isReference ? value : "[hidden]";
}
