import type { EndedCall } from "../../calls/call-desk.ts";
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
  { desk }: Pick<McpParts, "desk">,
  viewer: Viewer,
  { name, arguments: input = {}, _meta }: ToolCallParams,
  options: ExchangeOptions,
): Exchange<EndedCall> {
  const exchange = new Exchange<EndedCall>(options);
  const { callId } = options;
  const { allow } = viewer;
  const session = _meta?.["toolrack/sessionID"];
  const headers = traceOf(_meta);
  return exchange.start((signal) =>
    currentExchange.run(exchange, () =>
      desk.run({
        name,
        input,
        grant: viewer.grant,
        signal,
        client: exchange,
        ...(callId === undefined ? {} : { callId }),
        ...(mayWatch(options) ? { watcher: { progress: (update) => exchange.progress(update) } } : {}),
        ...(headers === undefined ? {} : { headers }),
        ...(allow === undefined ? {} : { allow }),
        ...(typeof session === "string" ? { sessionID: session } : {}),
      }),
    ),
  );
}

/** Who can be asked may come back with another request, and want to hear of progress then. */
function mayWatch({ wants, abilities, callId }: ExchangeOptions): boolean {
  if (wants.progress || callId !== undefined) return true;
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
