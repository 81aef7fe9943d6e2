import type { ApiError } from "../api/api-error.ts";

/** What the server said about places in the arguments, by path. */
export function issuesOf(error: ApiError): ReadonlyMap<string, string> {
  const { issues } = error.details;
  if (error.code !== "invalid_arguments" || !Array.isArray(issues)) return new Map();
  const found = new Map<string, string>();
  for (const issue of issues) {
    if (typeof issue?.path === "string" && typeof issue.message === "string" && !found.has(issue.path)) {
      found.set(issue.path, issue.message);
    }
  }
  return found;
}
