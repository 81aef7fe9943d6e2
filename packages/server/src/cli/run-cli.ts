import { CommanderError } from "commander";
import { type ProtectedProcess, protectProcess } from "../rack/protect-process.ts";
import { Cli, type GlobalOptions } from "./cli.ts";
import { type CliError, toCliError, usageError } from "./cli-error.ts";
import { exitCodes } from "./exit-codes.ts";
import { type Action, makeProgram } from "./program.ts";
import { printable } from "./text/printable.ts";

/** A second Ctrl-C that comes sooner is the same one, sent on by whoever started us. */
const SAME_INTERRUPT = 500;

/** Runs the command line and ends the process: timers and sockets that tools left behind do not keep it alive. */
export async function runCli(args: string[]): Promise<void> {
  if (args.includes("--no-color")) {
    process.env.NO_COLOR = "1";
    delete process.env.FORCE_COLOR;
  }
  const host = protectProcess({ onIncident: (incident) => process.stderr.write(`warning: ${incident}\n`) });
  stayQuietWhenCutOff(host);
  // A tool may wait for something that holds nothing open; the process must not end under it.
  const keepAlive = setInterval(() => {}, 60_000);
  const code = await run(args, host);
  clearInterval(keepAlive);
  await host.printed();
  host.exit(code);
}

async function run(args: readonly string[], host: ProtectedProcess): Promise<number> {
  const json = args.includes("--json");
  let code: number = exitCodes.ok;
  const perform = async (options: GlobalOptions, action: Action) => {
    const cli = new Cli(options, host.print);
    endOnSignals(cli, host);
    code = await action(cli);
  };
  const program = makeProgram(perform);
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({
      writeOut: host.print,
      writeErr: (text) => void process.stderr.write(text),
      outputError: (text, write) => json || write(text),
    });
  }
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (thrown) {
    if (thrown instanceof CommanderError) return usageExit(thrown, json, host);
    return report(toCliError(thrown), json, host);
  }
}

/** Help and version end with 0; everything else that commander objects to is wrong usage. */
function usageExit(error: CommanderError, json: boolean, host: ProtectedProcess): number {
  if (error.exitCode === 0) return exitCodes.ok;
  if (!json || error.code === "commander.help") return exitCodes.usage;
  return report(usageError(error.message.replace(/^error: /, "")), json, host);
}

function report(
  { code, message, details, exitCode }: CliError,
  json: boolean,
  host: ProtectedProcess,
): number {
  const { stack, ...shown } = details ?? {};
  if (json) {
    const error = { code, message, ...(Object.keys(shown).length === 0 ? {} : { details: shown }) };
    host.print(`${JSON.stringify({ error }, null, 2)}\n`);
  } else {
    // It may quote what others wrote, such as a file of a project.
    process.stderr.write(`error: ${printable(message)}\n`);
  }
  if (stack !== undefined && process.env.TOOLRACK_DEBUG !== undefined)
    process.stderr.write(`${printable(String(stack))}\n`);
  return exitCode;
}

/** The command may end in its own way on the first signal; a second one, or no such way, ends it at once. */
function endOnSignals(cli: Cli, host: ProtectedProcess): void {
  const numbers = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;
  let first: number | undefined;
  for (const [signal, number] of Object.entries(numbers)) {
    process.on(signal, () => {
      const now = performance.now();
      if (first !== undefined && now - first < SAME_INTERRUPT) return;
      const isSecond = first !== undefined;
      first ??= now;
      if (isSecond || !cli.interrupt()) {
        cli.status.clear();
        host.exit(128 + number);
      }
    });
  }
}

/** `toolrack list | head`: whoever reads us has had enough, which is no failure. */
function stayQuietWhenCutOff(host: ProtectedProcess): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    host.exit(error.code === "EPIPE" ? exitCodes.ok : exitCodes.failure);
  });
  process.stderr.on("error", () => {});
}
