import { runCli } from "./surfaces/cli/run-cli.ts";

await runCli(process.argv.slice(2));
