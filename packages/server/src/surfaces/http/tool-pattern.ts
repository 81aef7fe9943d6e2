import { problemOfToolPattern } from "../../auth/tool-matcher.ts";
import { problemOfRulePattern } from "../../store/approvals/problem-of-rule-pattern.ts";
import { HttpError } from "./http-error.ts";

/** What the API says of every pattern of tools that it takes. */
export const toolPattern =
  "A tool's name, in which `*` stands for anything; or `mcp:KEY` for the tools of exactly that MCP server, and " +
  "`mcp:KEY/PATTERN` for those of them that it calls so itself, case included. A slash of the key is written `%2F`.";

/** Refuses a pattern of tools in a body that could never fit anything. */
export function refuseToolPattern(path: string, pattern: string): void {
  const message = problemOfToolPattern(pattern);
  if (message !== undefined) throw refused(path, message);
}

/** Refuses also a pattern that a rule could not be kept with. */
export function refuseRulePattern(path: string, pattern: string): void {
  refuseToolPattern(path, pattern);
  const message = problemOfRulePattern(pattern);
  if (message !== undefined) throw refused(path, message);
}

function refused(path: string, message: string): HttpError {
  return new HttpError("invalid_request", message, { details: { in: "body", issues: [{ path, message }] } });
}
