import { createHash } from "node:crypto";
import type { ServerNotifier } from "@modelcontextprotocol/server";
import type { OfferingReader } from "../../offerings/offering-source.ts";
import type { LegacySessions } from "./http/legacy-sessions.ts";
import type { McpParts } from "./mcp-parts.ts";

/** How long changes are gathered before clients are told of them, in milliseconds: a reload makes several. */
const GATHER = 50;
/** When the lists are looked at for the first time, in milliseconds, if no client came before. */
const FIRST_LOOK = 1_000;

/**
 * Tells clients what has changed, those of the newer and of the older versions. Sources of prompts and resources tell of
 * more than that: theirs are looked at. Answers how to stop.
 */
export function publishChanges(
  { registry, offerings, clients }: Pick<McpParts, "registry" | "offerings" | "clients">,
  modern: ServerNotifier,
  sessions: Pick<LegacySessions, "tell">,
): () => void {
  const tellOf = {
    tools() {
      modern.toolsChanged();
      sessions.tell((server) => server.sendToolListChanged());
    },
    prompts() {
      modern.promptsChanged();
      sessions.tell((server) => server.sendPromptListChanged());
    },
    resources() {
      modern.resourcesChanged();
      sessions.tell((server) => server.sendResourceListChanged());
    },
  };
  const lists = {
    tools: undefined,
    prompts: new KnownList(() => offerings.prompts(everything)),
    resources: new KnownList(() =>
      Promise.all([
        offerings.resources(everything),
        offerings.resourceTemplates(everything),
        // A skill shows as resources.
        offerings.skills(everything),
      ]),
    ),
  };
  const waiting = new Map<keyof typeof tellOf, NodeJS.Timeout>();
  let isStopped = false;
  const gather = (kind: keyof typeof tellOf) => {
    lists[kind]?.doubt();
    if (waiting.has(kind)) return;
    const tell = async () => {
      waiting.delete(kind);
      const hasChanged = (await lists[kind]?.look()) ?? true;
      if (hasChanged && !isStopped) tellOf[kind]();
    };
    waiting.set(kind, setTimeout(() => void tell(), GATHER).unref());
  };
  // Only what somebody may have seen can be another one.
  const lookFirst = () => {
    clearTimeout(firstLook);
    stopWaiting();
    void lists.prompts.look();
    void lists.resources.look();
  };
  const firstLook = setTimeout(lookFirst, FIRST_LOOK).unref();
  const stopWaiting = clients.subscribe(lookFirst);
  const stops = [
    stopWaiting,
    registry.subscribe((event) => {
      if (event.type === "tools") gather("tools");
    }),
    offerings.subscribe((change) => {
      if (change.kind === "resource") modern.resourceUpdated(change.uri);
      else gather(change.kind === "prompts" ? "prompts" : "resources");
    }),
  ];
  return () => {
    isStopped = true;
    for (const stop of stops) stop();
    clearTimeout(firstLook);
    for (const timer of waiting.values()) clearTimeout(timer);
  };
}

/** A list as it was when it was last looked at. */
class KnownList {
  readonly #read: () => Promise<unknown>;
  #known: string | undefined;
  #doubts = 0;

  constructor(read: () => Promise<unknown>) {
    this.#read = read;
  }

  /** To be called when it may have changed. */
  doubt(): void {
    this.#doubts++;
  }

  /** Says whether it is another one than before. In doubt it is. Never rejects. */
  async look(): Promise<boolean> {
    const before = this.#known;
    const doubts = this.#doubts;
    const now = await this.#digest();
    // What changed while it was being read may be in it or not.
    this.#known = doubts === this.#doubts ? now : undefined;
    return now === undefined || now !== before;
  }

  async #digest(): Promise<string | undefined> {
    try {
      return createHash("sha256")
        .update(JSON.stringify(await this.#read()))
        .digest("base64");
    } catch {
      return undefined;
    }
  }
}

/** Somebody for whom everything is there. */
const everything: OfferingReader = {
  caller: "mcp",
  mayUse: () => true,
  signal: new AbortController().signal,
};
