import { CommanderError } from "commander";
import { attributeConsole } from "../helpers/console-output.ts";
import { Cli, type OutputStream, ownProgram, type Surroundings } from "./cli.ts";
import { type CliError, exitCodes, toCliError, usageError } from "./cli-error.ts";
import { makeProgram } from "./program.ts";
import { printable } from "./text.ts";

/**
 * Milliseconds. A second Ctrl-C within this time is taken for the first one, forwarded by the program that started us.
 */
const SAME_INTERRUPT = 500;

/** Runs the command line and ends the process, even if tools left timers or sockets open. */
export async function runProgram(args: readonly string[]): Promise<void> {
  if (args.includes("--no-color")) {
    process.env.NO_COLOR = "1";
    delete process.env.FORCE_COLOR;
  }
  const host = protectProcess((incident) => process.stderr.write(`warning: ${incident}\n`));
  stayQuietWhenCutOff(host);
  // Keeps Node running while a tool waits for a promise without a timer or socket behind it.
  const keepAlive = setInterval(() => {}, 60_000);
  const { env, stdin, stderr } = process;
  // protectProcess sends what tools write to process.stdout to standard error. This object writes to standard output itself.
  const stdout: OutputStream = Object.create(process.stdout, { write: { value: host.print } });
  const { cwd, chdir } = { cwd: process.cwd(), chdir: (folder: string) => process.chdir(folder) };
  const surroundings = { cwd, chdir, env, stdin, stdout, stderr, program: ownProgram() };
  const code = await runCommand(args, surroundings, (cli) => endOnSignals(cli, host));
  clearInterval(keepAlive);
  await host.printed();
  host.exit(code);
}

/**
 * Runs one command line and returns the exit code. Never throws. `onStart` gets the command's `Cli` before the command
 * begins.
 */
export async function runCommand(
  args: readonly string[],
  surroundings: Surroundings,
  onStart: (cli: Cli) => void = () => {},
): Promise<number> {
  const { stdout, stderr } = surroundings;
  const json = args.includes("--json");
  let code: number = exitCodes.ok;
  const program = makeProgram(async (options, action) => {
    const cli = new Cli(options, surroundings);
    onStart(cli);
    await action(cli);
    code = cli.exitCode;
  });
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      outputError: (text, write) => json || write(text),
    });
  }
  try {
    await program.parseAsync([...args], { from: "user" });
    return code;
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) return report(toCliError(thrown), json, surroundings);
    // Help and version end with 0; all other errors of commander are usage errors.
    if (thrown.exitCode === 0) return exitCodes.ok;
    if (!json || thrown.code === "commander.help") return exitCodes.usage;
    return report(usageError(thrown.message.replace(/^error: /, "")), json, surroundings);
  }
}

function report(error: CliError, json: boolean, { stdout, stderr, env }: Surroundings): number {
  const { code, message, details = {}, exitCode } = error;
  const { stack, ...shown } = details;
  if (json) {
    const shownError = { code, message, ...(Object.keys(shown).length === 0 ? {} : { details: shown }) };
    stdout.write(`${JSON.stringify({ error: shownError }, null, 2)}\n`);
  } else {
    // The message may quote foreign text, such as a project's file.
    stderr.write(`error: ${printable(message)}\n`);
  }
  if (stack !== undefined && env.TOOLRACK_DEBUG !== undefined) stderr.write(`${printable(String(stack))}\n`);
  return exitCode;
}

/** At the first signal the command may end by itself. At the second, or if it cannot, the process ends at once. */
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

/** `toolrack list | head`: a reader that closes the pipe is not an error. */
function stayQuietWhenCutOff(host: ProtectedProcess): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    host.exit(error.code === "EPIPE" ? exitCodes.ok : exitCodes.failure);
  });
  process.stderr.on("error", () => {});
}

/**
 * Tools run inside this process. The protection keeps them from writing to the standard output that carries
 * our data, from ending the process, and from crashing it with an uncaught error.
 */
interface ProtectedProcess {
  /** Writes to the real standard output. */
  readonly print: (text: string) => void;
  /** Resolves when all output has been written: a pipe may take it in several parts. */
  readonly printed: () => Promise<void>;
  readonly exit: (code: number) => never;
}

let protectedProcess: ProtectedProcess | undefined;

/** Takes effect once; later calls return the same object. `onIncident` is told of every attempt to exit and every uncaught error. */
function protectProcess(onIncident: (incident: string) => void): ProtectedProcess {
  if (protectedProcess !== undefined) return protectedProcess;
  const write = process.stdout.write.bind(process.stdout);
  const exit = process.exit.bind(process);

  // Output of tools, such as console.log, goes to standard error.
  process.stdout.write = process.stderr.write.bind(process.stderr);
  attributeConsole();
  process.exit = (code) => {
    onIncident(`a tool called process.exit(${code ?? ""})`);
    throw new Error("process.exit() is not available to tools: throw an error, or return a result.");
  };
  process.on("uncaughtException", (error) => onIncident(`an error that no tool caught: ${textOf(error)}`));
  process.on("unhandledRejection", (reason) =>
    onIncident(`a rejection that no tool handled: ${textOf(reason)}`),
  );

  protectedProcess = {
    print: (text) => void write(text),
    // Does not end the stream, because it may be a socket that is shared with others, such as the shell that started
    // us.
    printed: () => new Promise((resolve) => write("", () => resolve())),
    exit: (code) => exit(code),
  };
  return protectedProcess;
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
