import { compileSchema, type SchemaIssue, type ToolRegistry } from "@toolrack/core";

/** What keeps a tool from running with these arguments. A tool that is gone is found missing by the call itself. */
export async function issuesOf(
  registry: ToolRegistry,
  toolName: string,
  input: Readonly<Record<string, unknown>>,
): Promise<readonly SchemaIssue[]> {
  const info = registry.get(toolName);
  if (info === undefined) return [];
  const outcome = await compileSchema(info.parameters).validate(input, {
    strict: info.metadata.strict === true,
  });
  return outcome.ok ? [] : outcome.issues;
}
