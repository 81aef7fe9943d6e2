import type { ClientMethod, Logger, ToolRegistry } from "@toolrack/core";
import {
  type Answer,
  type ApprovalInbox,
  approvalMark,
  INBOX,
  shownArguments,
  UnfitAnswer,
} from "../../calls/index.ts";
import type { StoredApproval } from "../../store/index.ts";
import type { ConnectedClient, Era } from "../wire/index.ts";
import { currentExchange, type Exchange } from "./exchange.ts";
import type { Viewer } from "./lists.ts";

/** What a client says of itself. */
interface ClientInfo {
  readonly name: string;
  readonly version?: string;
}

interface Seen extends ClientInfo {
  readonly era: Era;
  readonly viewer: Viewer;
  lastSeenAt: number;
  /** The version of the rack that it listed last. */
  listed: number | undefined;
}

const MOST = 200;
const LONGEST_TEXT = 100;
const CLIENT = "io.modelcontextprotocol/clientInfo";

/** The clients that were seen since the start. Of very many, those that were seen last. */
export class ConnectedClients {
  readonly #registry: ToolRegistry;
  readonly #clients = new Map<string, Seen>();
  readonly #listeners = new Set<(client: ConnectedClient) => void>();

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
  }

  /**
   * Takes note of whoever sent the message. In a session only its first message says who the client is; what that said is
   * given with the others. Messages of clients that say nothing of themselves are passed over.
   */
  see(message: unknown, viewer: Viewer, ofSession: ClientInfo | undefined): void {
    const { method, params } = (message ?? {}) as { method?: unknown; params?: Params | null };
    const modern = params?._meta?.[CLIENT];
    const info = modern ?? ofSession ?? (method === "initialize" ? params?.clientInfo : undefined);
    if (!isClientInfo(info)) return;
    const seen = this.#find(info, modern === undefined ? "legacy" : "modern", viewer);
    const isNew = seen.lastSeenAt === 0 || method === "initialize";
    seen.lastSeenAt = Date.now();
    if (method === "tools/list") seen.listed = this.#registry.snapshot().version;
    if (isNew) for (const listener of this.#listeners) listener(this.#describe(seen));
  }

  /** Hears of each client that is seen for the first time, or begins another session. Answers how to stop. */
  subscribe(listener: (client: ConnectedClient) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The one that was seen last first. */
  list(): ConnectedClient[] {
    return [...this.#clients.values()]
      .sort((one, other) => other.lastSeenAt - one.lastSeenAt)
      .map((seen) => this.#describe(seen));
  }

  #describe({ name, version, era, viewer: { grant, expert }, lastSeenAt, listed }: Seen): ConnectedClient {
    const isStale = listed !== undefined && listed !== this.#registry.snapshot().version;
    return {
      name,
      ...(version === undefined ? {} : { version }),
      transport: "http",
      era,
      caller: grant.caller,
      ...(expert === undefined ? {} : { expert: expert.name }),
      lastSeenAt,
      ...(isStale ? { stale: true } : {}),
    };
  }

  #find({ name, version }: ClientInfo, era: Era, viewer: Viewer): Seen {
    const key = `${clip(name)}\n${clip(version ?? "")}\n${era}\n${viewer.principal}`;
    const known = this.#clients.get(key);
    if (known !== undefined) return known;
    if (this.#clients.size >= MOST) this.#forgetOldest();
    const made: Seen = {
      name: clip(name),
      ...(version === undefined ? {} : { version: clip(version) }),
      era,
      viewer,
      lastSeenAt: 0,
      listed: undefined,
    };
    this.#clients.set(key, made);
    return made;
  }

  #forgetOldest(): void {
    let oldest: string | undefined;
    let since = Number.POSITIVE_INFINITY;
    for (const [key, { lastSeenAt }] of this.#clients) {
      if (lastSeenAt >= since) continue;
      oldest = key;
      since = lastSeenAt;
    }
    if (oldest !== undefined) this.#clients.delete(oldest);
  }
}

/** What is looked at of the parameters; each part may be anything. */
interface Params {
  readonly _meta?: { readonly [CLIENT]?: unknown } | null;
  readonly clientInfo?: unknown;
}

function isClientInfo(value: unknown): value is ClientInfo {
  if (typeof value !== "object" || value === null) return false;
  const { name, version } = value as { name?: unknown; version?: unknown };
  return typeof name === "string" && name !== "" && (version === undefined || typeof version === "string");
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}

/** What the other end said that it can be asked, as MCP has it. */
export interface ClientAbilities {
  readonly elicitation?: object;
  readonly sampling?: object;
  readonly roots?: object;
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** What a question needs: `{ elicitation: { url: {} } }`. */
export type NeededAbility = Readonly<Record<string, Readonly<Record<string, object>>>>;

/**
 * What a client would have to be able to do for this question and did not say that it can; undefined when nothing is
 * missing. Without `params` it is asked whether there is any question of this kind that it can answer.
 */
export function missingAbility(
  abilities: ClientAbilities,
  method: ClientMethod,
  params?: object,
): NeededAbility | undefined {
  switch (method) {
    case "elicitation/create":
      return missingMode(abilities.elicitation, params);
    case "sampling/createMessage":
      return missingTools(abilities.sampling, params);
    case "roots/list":
      return abilities.roots === undefined ? { roots: {} } : undefined;
  }
}

function missingMode(declared: Declared, params: object | undefined): NeededAbility | undefined {
  if (declared === undefined) return { elicitation: {} };
  if (params === undefined) return undefined;
  if ((params as { mode?: unknown }).mode === "url") {
    return declared.url === undefined ? { elicitation: { url: {} } } : undefined;
  }
  // Clients from before there were modes name none, and mean forms.
  const hasForms = declared.form !== undefined || declared.url === undefined;
  return hasForms ? undefined : { elicitation: { form: {} } };
}

function missingTools(
  declared: { readonly tools?: object } | undefined,
  params: { readonly tools?: unknown; readonly toolChoice?: unknown } = {},
): NeededAbility | undefined {
  if (declared === undefined) return { sampling: {} };
  const needsTools = params.tools !== undefined || params.toolChoice !== undefined;
  return needsTools && declared.tools === undefined ? { sampling: { tools: {} } } : undefined;
}

type Declared = { readonly form?: object; readonly url?: object } | undefined;

/** Characters of the arguments that the person is shown. */
const LONGEST_INPUT = 4_000;

/**
 * Puts questions that wait in the inbox to the person at the MCP client too, when it can ask them and its grant is one to
 * approve the call. Any other client is told where the question waits. The first answer counts, wherever it comes from.
 * Returns a function that stops it.
 */
export function letClientsApprove(approvals: ApprovalInbox, logger: Logger): () => void {
  const asked = new Map<string, AbortController>();
  return approvals.subscribe((approval) => {
    const { id, state } = approval;
    if (state !== "pending") {
      asked.get(id)?.abort("the question was answered elsewhere");
      asked.delete(id);
      return;
    }
    const exchange = currentExchange.getStore();
    // What a call leaves behind, such as a timer, may ask when the call and its client are long gone.
    if (exchange === undefined || exchange.isOver) return;
    const { approver: grant } = exchange;
    if (grant === undefined || !approvals.mayAnswer(approval, grant)) {
      return exchange.warn(waitsForOthers(approval), approval.toolName);
    }
    if (!exchange.can("elicitation/create", { mode: "form" })) return;
    const withdrawn = new AbortController();
    asked.set(id, withdrawn);
    void ask(exchange, approval, withdrawn.signal)
      .then((answer) => answer && approvals.answer(id, answer, { name: nameOf(exchange, approval), grant }))
      .catch((thrown) => {
        const reason = thrown instanceof Error ? thrown.message : String(thrown);
        logger.warn(`The approval ${id} could not be answered by the MCP client: ${reason}`);
      })
      .finally(() => asked.delete(id));
  });
}

/** Undefined when the client gives no answer: then the question goes on waiting in the inbox, and the client is told. */
async function ask(
  exchange: Exchange<unknown>,
  { id, message, input, toolName }: StoredApproval,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const params = {
    mode: "form",
    _meta: { [approvalMark]: toolName },
    message: `${message}\n\n${toolName} ${shownArguments(input, LONGEST_INPUT)}`,
    requestedSchema: {
      type: "object",
      properties: {
        approve: { type: "boolean", title: "Allow this call", default: false },
        reason: { type: "string", title: "Reason", description: "The model is told it when you refuse." },
      },
      required: ["approve"],
    },
  };
  let answer: { action?: unknown; content?: { approve?: unknown; reason?: unknown } };
  try {
    answer = (await exchange.request("elicitation/create", params, signal)) as typeof answer; // Checked on arrival.
  } catch (thrown) {
    // It did answer, again and again, and never with a clear yes: whoever waits for the call is not left waiting.
    if (thrown instanceof UnfitAnswer) return { decision: "deny", reason: thrown.message };
    if (!signal.aborted) {
      exchange.warn(waitsInInbox(toolName, id, thrown), toolName);
    }
    return undefined;
  }
  const reason = answer.content?.reason;
  const said = typeof reason === "string" && reason !== "" ? { reason } : {};
  if (answer.action === "accept" && answer.content?.approve === true) return { decision: "allow", ...said };
  if (answer.action === "cancel") return { decision: "deny", reason: "the question was dismissed" };
  return { decision: "deny", ...said };
}

function waitsForOthers({ id, toolName }: StoredApproval): string {
  return `"${toolName}" needs an approval that this client may not give. The question waits in ${INBOX}; somebody who may approve it answers there: \`toolrack approvals approve ${id}\`. Until then the call waits.`;
}

function waitsInInbox(toolName: string, id: string, thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return `The client gave no answer to whether "${toolName}" may run (${reason}). The question waits in the inbox, where somebody can answer it: in the console, or with \`toolrack approvals approve ${id}\`.`;
}

function nameOf({ name }: Exchange<unknown>, { caller }: StoredApproval): string {
  return name === "" ? `MCP client of ${caller}` : `${name} (${caller})`;
}
