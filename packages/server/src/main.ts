import { runProgram } from "./cli/index.ts";

await runProgram(process.argv.slice(2));
