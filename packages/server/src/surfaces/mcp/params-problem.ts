import { isRecord } from "../../json/is-record.ts";

/**
 * The SDK says what is wrong with the parameters of a request by a list of problems in JSON, perhaps after a few words.
 * The same as a sentence; undefined when the text is anything else.
 */
export function paramsProblem(method: string, text: string): string | undefined {
  const start = text.indexOf("[");
  if (start === -1 || !text.endsWith("]")) return undefined;
  const problems = problemsIn(text.slice(start));
  return problems && `The parameters of ${method} do not fit: ${problems.join("; ")}.`;
}

function problemsIn(json: string): string[] | undefined {
  try {
    const issues: unknown = JSON.parse(json);
    return Array.isArray(issues) && issues.length > 0 ? issues.map(toProblem) : undefined;
  } catch {
    return undefined;
  }
}

/** Throws for what is no problem as the SDK writes them. */
function toProblem(issue: unknown): string {
  if (!isRecord(issue) || !Array.isArray(issue.path) || typeof issue.message !== "string") throw new Error();
  const [root, ...rest] = issue.path;
  const place = (root === "params" ? rest : issue.path).join(".");
  return place === "" ? issue.message : `${place}: ${issue.message}`;
}
