import { type Logger, redact, type ToolRegistry } from "@toolrack/core";
import type { Unapproved } from "../../access/index.ts";
import { MaskedValues, type Secrets } from "../../access/index.ts";
import type { Offerings } from "../../calls/index.ts";
import { type RackIdentity, unknownRack } from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import {
  McpServerError,
  type McpServerStore,
  type StoredMcpServer,
  type ToolOverride,
} from "../../store/index.ts";
import { ownMember, type RefusedItem } from "./catalogue/catalogue.ts";
import type { RackNames } from "./catalogue/names.ts";
import { hashOfPin, type PinningPolicy, pinOf, type ToolPin } from "./catalogue/pins.ts";
import { type UncheckedItem, uncheckedIn } from "./catalogue/schema.ts";
import { isOffered } from "./catalogue/tool.ts";
import { isLocal, readServerEntry, type ServerEntry } from "./config/entry.ts";
import { keepHidden, shownEntry } from "./config/hidden.ts";
import type { McpFile, Surroundings } from "./config/resolve-entry.ts";
import { commandFor, type ManagedServer } from "./managed-server.ts";
import type { SignIn, SignInView } from "./sign-in/sign-in.ts";
import { canSignIn, type VaultSecrets } from "./sign-in/vault.ts";
import type { UpstreamStatus } from "./upstream-state.ts";

/** A server as it is wanted: the entry, where it stands, and whether it is switched on. */
export interface WantedServer {
  readonly key: string;
  readonly entry: ServerEntry;
  readonly place: "file" | "store";
  readonly isEnabled: boolean;
  /** The entry of the file waits for an admin: a tool call wrote it. */
  readonly isHeld?: boolean;
  /** Of one that cannot be started because of its entry, of which `entry` then is the part that can be used. */
  readonly invalid?: {
    /** As it is written. */
    readonly given: unknown;
    readonly reason: string;
  };
  /** What is wrong with the entry as it is written now. The server goes on by `entry`, the last one that was valid. */
  readonly problem?: string;
}

interface WantedSurroundings {
  readonly path: string;
  readonly logger: Logger;
  /** What is wanted of a server until now. */
  readonly last: (key: string) => WantedServer | undefined;
  /** Why an entry of the file waits for an admin. Default: none does. */
  readonly heldBack?: (key: string, given: unknown) => string | undefined;
}

interface BrokenEntry {
  readonly key: string;
  readonly place: WantedServer["place"];
  readonly given: unknown;
  readonly reason: string;
  readonly remedy: string;
  /** What an operator said. */
  readonly enabled: boolean | undefined;
}

/** What the file and the store say together, by key. Of two with one key, that of the file counts. */
export async function wantedServers(
  rows: ReadonlyMap<string, StoredMcpServer>,
  file: McpFile,
  { path, logger, last, heldBack }: WantedSurroundings,
): Promise<Map<string, WantedServer>> {
  const wanted = new Map<string, WantedServer>();
  for (const row of rows.values()) {
    if (row.entry === undefined) continue;
    wanted.set(row.key, await storedServer(row.key, row.entry, row.enabled, last(row.key)));
  }
  for (const key of [...file.entries.keys(), ...file.invalid.keys()]) {
    // Said when it begins, and not whenever something else changes.
    if (wanted.has(key) && last(key)?.place !== "file") {
      logger.warn(`The MCP server "${key}" stands in ${path} and in the store. The file counts.`);
    }
  }
  for (const [key, { given, reason }] of file.invalid) {
    const { enabled } = rows.get(key) ?? {};
    const remedy = "Mend it in the file.";
    wanted.set(key, broken({ key, place: "file", given, reason, remedy, enabled }, last(key)));
  }
  for (const [key, entry] of file.entries) {
    const { enabled } = rows.get(key) ?? {};
    const given = file.given.get(key);
    const reason = heldBack?.(key, given);
    if (reason !== undefined) {
      const remedy = `Look at it, then approve it: ${commandFor("approve", key)}`;
      wanted.set(key, {
        ...broken({ key, place: "file", given, reason, remedy, enabled }, last(key)),
        isHeld: true,
      });
      continue;
    }
    wanted.set(key, { key, entry, place: "file", isEnabled: enabled ?? entry.enabled !== false });
  }
  return wanted;
}

/** One that another version or somebody by hand wrote may be of any form, and must be there to be changed or removed. */
async function storedServer(
  key: string,
  given: unknown,
  enabled: boolean | undefined,
  last: WantedServer | undefined,
): Promise<WantedServer> {
  try {
    const entry = await readServerEntry(given);
    return { key, entry, place: "store", isEnabled: enabled ?? entry.enabled !== false };
  } catch (thrown) {
    const reason = `Its entry in the store is not valid. ${(thrown as Error).message}`;
    const remedy = `Remove it (${commandFor("remove", key)}) or give it another entry.`;
    return broken({ key, place: "store", given, reason, remedy, enabled }, last);
  }
}

/** One that runs goes on as it last was; any other has failed. */
function broken(
  { key, place, given, reason, remedy, enabled }: BrokenEntry,
  last: WantedServer | undefined,
): WantedServer {
  const { url, enabled: isOn, disabled: isOff } = isRecord(given) ? given : {};
  const isWanted = isOn !== false && isOff !== true;
  // What stood in the other place was no earlier version of this one.
  if (last?.place === place && last.invalid === undefined) {
    const { entry } = last;
    const isEnabled = enabled ?? (isWanted && entry.enabled !== false);
    return {
      key,
      entry,
      place,
      isEnabled,
      problem: `${reason} The server goes on as its entry last said. ${remedy}`,
    };
  }
  return {
    key,
    entry: typeof url === "string" ? { url } : {},
    place,
    isEnabled: enabled ?? isWanted,
    invalid: { given, reason: `${reason} ${remedy}` },
  };
}

/** An entry as it is kept. Throws `McpServerError`. `before` is the one whose place it takes. */
export async function checkedEntry(given: unknown, before?: WantedServer): Promise<ServerEntry> {
  try {
    return await readServerEntry(keepHidden(given, before?.invalid?.given ?? before?.entry));
  } catch (thrown) {
    throw new McpServerError("mcp_server_invalid", `The entry is not valid. ${(thrown as Error).message}`);
  }
}

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

/** Installs npm packages. */
export interface PackageStore {
  /** Resolves to the folder whose `node_modules` holds the packages. */
  install(
    dependencies: Readonly<Record<string, string>>,
    label: string,
    signal?: AbortSignal,
  ): Promise<string>;
}

export interface McpServersParts {
  readonly registry: ToolRegistry;
  readonly offerings?: Offerings;
  readonly store: McpServerStore;
  readonly secrets: Pick<Secrets, "values" | "hold"> & VaultSecrets;
  readonly logger: Logger;
  /** The workspace. */
  readonly directory: string;
  /** The file with `mcpServers`, relative to the workspace. Default `mcp.json`. */
  readonly file?: string;
  /** Says which entries of the file wait for an admin because a tool call wrote them. Default: none. */
  readonly unapproved?: Pick<Unapproved, "servers" | "approveServer">;
  /** Default `quarantine`. */
  readonly pinning?: PinningPolicy;
  /** Where packages of servers are installed. */
  readonly packages: PackageStore;
  /** Default: that of no workspace. */
  readonly identity?: RackIdentity;
  /** How servers are told who we are. */
  readonly clientInfo?: { readonly name: string; readonly version: string };
}

/** What all servers share. */
export interface ServerSurroundings {
  readonly registry: ToolRegistry;
  readonly offerings: Offerings | undefined;
  readonly store: McpServerStore;
  readonly logger: Logger;
  readonly surroundings: Surroundings;
  readonly identity: RackIdentity;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly packages: PackageStore;
  readonly pinning: PinningPolicy;
  /** For everything that a server says, and that is said of it. */
  readonly mask: (text: string) => string;
  /** Values of the entry with this key that must be masked everywhere while it is there; none when it goes. */
  readonly hold: (key: string, values: Iterable<string>) => void;
  /** Where sign-ins are kept. */
  readonly secrets: VaultSecrets;
  readonly names: RackNames;
  /** Names of other servers than this one are others now. */
  readonly onNames: (key: string) => void;
  readonly onChange: () => void;
}

export function serverSurroundings(
  parts: McpServersParts,
  own: Pick<ServerSurroundings, "names" | "onNames" | "onChange">,
): ServerSurroundings {
  const { registry, offerings, store, secrets, logger, directory } = parts;
  const { list: values } = new MaskedValues(() => secrets.values());
  return {
    registry,
    offerings,
    store,
    logger,
    surroundings: { directory, environment: process.env, secret: (name) => secrets.get(name) },
    identity: parts.identity ?? unknownRack(),
    clientInfo: parts.clientInfo ?? { name: "toolrack", version: "0" },
    packages: parts.packages,
    pinning: parts.pinning ?? "quarantine",
    mask: (text) => String(redact(text, { values: values() })),
    hold: (key, held) => secrets.hold(`mcp-server ${key}`, held),
    secrets,
    ...own,
  };
}

/** Throws `McpServerError` for a server at which nobody can sign in. */
export function requireSignIn({ key, signIn, wanted }: ManagedServer): SignIn {
  if (signIn !== undefined) return signIn;
  if (wanted.invalid !== undefined) throw new McpServerError("mcp_server_invalid", wanted.invalid.reason);
  throw new McpServerError(
    "mcp_server_invalid",
    `Nobody can sign in at the MCP server "${key}": ${reasonFor(wanted.entry)}.`,
  );
}

function reasonFor(entry: ServerEntry): string {
  if (isLocal(entry)) return "it is a process, which takes its credentials from its environment";
  const canHaveBoth = canSignIn({ ...entry, toolrack: { ...entry.toolrack, oauth: {} } });
  const other = canHaveBoth ? ', or give it "toolrack": { "oauth": {} } if the server wants both' : "";
  return `its entry sends credentials of its own, in a header or in its url. Take them out of the entry first${other}`;
}
