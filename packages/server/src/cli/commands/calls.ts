import type { StoredCall } from "../../store/store.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatDuration } from "../text/duration.ts";
import { oneLine, printable } from "../text/printable.ts";
import { withStore } from "../with-store.ts";

export type CallAction = "show";

/** `toolrack calls show ID`: a recorded call, with what its tool said. Whether a server runs does not matter. */
export async function calls(cli: Cli, _action: CallAction, id: string): Promise<number> {
  const call = await withStore(cli, (store) => store.calls.get(id));
  if (call === undefined) {
    const message = `There is no call "${printable(id)}". ${cli.commandLine("logs --ids")} shows the last ones.`;
    throw new CliError(message, { code: "call_not_found", details: { callId: id } });
  }
  if (cli.json) cli.printJson({ call });
  else cli.print(linesOf(cli, call).join("\n"));
  return exitCodes.ok;
}

function linesOf(cli: Cli, call: StoredCall): string[] {
  const { callId, toolName, outcome, duration, caller, timestamp, parameters, log = [], result } = call;
  const title = (text: string) => cli.style("bold", text);
  const facts = [oneLine(callId), new Date(timestamp).toISOString(), outcome, formatDuration(duration)];
  return [
    title(oneLine(toolName)),
    [...facts, oneLine(caller || "-")].join("  "),
    "",
    title("Arguments"),
    printable(JSON.stringify(parameters, undefined, 2)),
    ...(log.length === 0 ? [] : ["", title("Log")]),
    ...log.map(
      ({ at, level, text }) => `${new Date(at).toISOString()}  ${level.padEnd(8)}  ${printable(text)}`,
    ),
    ...(outcome === "running" ? [] : ["", title("Result"), printable(result.content)]),
  ];
}
