import type { CallRequest, EndedCall } from "../../calls/call-desk.ts";
import { currentExchange } from "./current-exchange.ts";
import { Exchange, type ExchangeOptions } from "./exchange.ts";
import type { McpParts } from "./mcp-parts.ts";
import type { Viewer } from "./viewer.ts";

export interface ToolCallParams {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Hands the call in. Whatever surface carries it: what it asks and tells goes through the exchange. */
export function startToolCall(
  { desk, registry }: Pick<McpParts, "desk" | "registry">,
  viewer: Viewer,
  { name, arguments: input = {}, _meta }: ToolCallParams,
  options: ExchangeOptions,
): Exchange<EndedCall> {
  const exchange = new Exchange<EndedCall>(options, input);
  const { callId } = options;
  const { allow } = viewer;
  const session = _meta?.["toolrack/sessionID"];
  const headers = traceOf(_meta);
  const call: { -readonly [Key in keyof CallRequest]: CallRequest[Key] } = {
    name,
    input,
    grant: viewer.grant,
    client: exchange,
  };
  if (mayWatch(options)) {
    call.watcher = {
      progress: (update) => exchange.progress(update),
      log(line) {
        // What an upstream server says comes by itself, as it said it.
        if (registry.get(line.toolName)?.metadata.mcp === undefined) exchange.log(line);
      },
    };
  }
  if (headers !== undefined) call.headers = headers;
  if (allow !== undefined) call.allow = allow;
  if (typeof session === "string") call.sessionID = session;
  // Whoever asks a person looks for the client far below; one that cannot be asked need not be found.
  const isFound = exchange.can("elicitation/create") || currentExchange.getStore() !== undefined;
  const run = () => (isFound ? currentExchange.run(exchange, () => desk.run(call)) : desk.run(call));
  if (callId === undefined) {
    return exchange.startCancellable((begun) => {
      call.begun = begun;
      return run();
    });
  }
  // Whether the id is taken is looked up first: meanwhile the client may cancel it.
  call.callId = callId;
  return exchange.start((signal) => {
    call.signal = signal;
    return run();
  });
}

/** Who can be asked may come back with another request, and want to hear of progress then. */
function mayWatch({ wants, abilities, callId }: ExchangeOptions): boolean {
  if (wants.progress || wants.level !== undefined || callId !== undefined) return true;
  for (const _ in abilities) return true;
  return false;
}

/** A trace is carried on in `_meta` under the names that HTTP gives it. */
function traceOf(meta: Readonly<Record<string, unknown>> | undefined): Record<string, string> | undefined {
  if (typeof meta?.traceparent !== "string") return undefined;
  const { traceparent, tracestate, baggage } = meta;
  return {
    traceparent,
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(typeof baggage === "string" ? { baggage } : {}),
  };
}
