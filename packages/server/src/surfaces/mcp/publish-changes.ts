import type { ServerNotifier } from "@modelcontextprotocol/server";
import type { LegacySessions } from "./http/legacy-sessions.ts";
import type { McpParts } from "./mcp-parts.ts";

/** How long changes are gathered before clients are told of them, in milliseconds: a reload makes several. */
const GATHER = 50;

/** Tells clients what has changed, those of the newer and of the older versions. Answers how to stop. */
export function publishChanges(
  { registry, offerings }: Pick<McpParts, "registry" | "offerings">,
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
  const waiting = new Map<keyof typeof tellOf, NodeJS.Timeout>();
  const gather = (kind: keyof typeof tellOf) => {
    if (waiting.has(kind)) return;
    const tell = () => {
      waiting.delete(kind);
      tellOf[kind]();
    };
    waiting.set(kind, setTimeout(tell, GATHER).unref());
  };
  const stops = [
    registry.subscribe((event) => {
      if (event.type === "tools") gather("tools");
    }),
    offerings.subscribe((change) => {
      if (change.kind === "resource") modern.resourceUpdated(change.uri);
      // A skill shows as resources.
      else gather(change.kind === "prompts" ? "prompts" : "resources");
    }),
  ];
  return () => {
    for (const stop of stops) stop();
    for (const timer of waiting.values()) clearTimeout(timer);
  };
}
