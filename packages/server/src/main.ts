import { parseArgs } from "node:util";
import { startDemonstration } from "./start.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { dir: { type: "string", default: "." } },
});

if (positionals[0] !== "start") {
  console.error("Usage: toolrack start [--dir WORKSPACE]");
  process.exit(2);
}
process.exitCode = await startDemonstration(values.dir);
