import { resolve } from "node:path";
import { ToolRegistry } from "@toolrack/core";
import { loadDefinedTools } from "./sources/define/load-defined-tools.ts";

/** Opens a workspace, lists its tools, and runs one through the whole life of a call. Answers with an exit code. */
export async function startDemonstration(directory: string): Promise<number> {
  const workspace = resolve(directory);
  const registry = new ToolRegistry();
  const { tools, failures } = await loadDefinedTools(workspace);
  for (const info of tools) registry.register(info);

  console.log(`Opened ${directory}: ${tools.length} tools, ${failures.length} failed.`);
  for (const { name, description } of registry.list()) console.log(`  ${name}  ${description ?? ""}`);
  for (const failure of failures) console.error(`  failed  ${failure}`);

  const call = { name: "unit_convert", input: { value: 26.2, from: "mile", to: "km" } };
  const result = await registry.execute(call.name, call.input);
  const [record] = registry.getCallHistory(1);
  console.log(`\n${call.name} ${JSON.stringify(call.input)}`);
  console.log(`  ${record?.status} in ${record?.duration.toFixed(2)} ms: ${result.content}`);
  return result.type === "error" ? 1 : 0;
}
