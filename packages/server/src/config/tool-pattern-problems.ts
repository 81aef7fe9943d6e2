import { problemOfToolPattern } from "../auth/tool-matcher.ts";
import type { Config } from "./config.ts";

/** What is wrong with the patterns of tools in a config that fits the schema, for people, each with the key that it is at. */
export function toolPatternProblems({ mcp, sandbox }: Pick<Config, "mcp" | "sandbox">): string[] {
  const grants = Object.entries(sandbox?.grants ?? {});
  return [
    ...problemsAt("mcp.alwaysListed", mcp?.alwaysListed),
    ...grants.flatMap(([tool, { tools }]) => problemsAt(`sandbox.grants.${tool}.tools`, tools)),
  ];
}

function problemsAt(key: string, patterns: readonly string[] = []): string[] {
  return patterns.flatMap((pattern, index) => {
    const problem = problemOfToolPattern(pattern);
    return problem === undefined ? [] : [`${key}[${index}]: ${problem}`];
  });
}
