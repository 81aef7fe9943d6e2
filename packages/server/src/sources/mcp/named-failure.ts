import { UpstreamError } from "./protocol/upstream-error.ts";

/** Kinds whose texts were made here, with the name of the server in them. */
const named: ReadonlySet<UpstreamError["kind"]> = new Set(["unavailable", "lost", "busy"]);

/** What an upstream server did wrong, said with its name. `what`: the call, or the method that it was asked for. */
export function describeFailure(
  key: string,
  what: string,
  { kind, message, code }: Pick<UpstreamError, "kind" | "message" | "code">,
): string {
  if (named.has(kind)) return message;
  if (kind === "broken") return `The MCP server "${key}" gave no usable answer: ${message}`;
  if (kind === "timeout") return `The MCP server "${key}" gave no answer: ${message}`;
  return `The MCP server "${key}" refused ${what}: ${message}${code === undefined ? "" : ` (code ${code})`}`;
}

/** The same error with the server's name in its text, which is masked; what else was thrown, as it is. */
export function namedFailure(
  key: string,
  what: string,
  thrown: unknown,
  mask: (text: string) => string,
): unknown {
  if (!(thrown instanceof UpstreamError)) return thrown;
  const { kind, facts } = thrown;
  return new UpstreamError(kind, mask(describeFailure(key, what, thrown)), { ...facts, cause: thrown });
}
