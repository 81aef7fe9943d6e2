import * as s from "../../helpers/schema.ts";
import { locateExisting } from "../paths.ts";
import { type CommandOutcome, childEnvironment, FLOOD_LIMIT, runCommand } from "../shell-command.ts";
import { answer, defineTool } from "../tool-definition.ts";

const USUAL_TIMEOUT = 60_000;
const LONGEST_TIMEOUT = 10 * 60_000;
const USUAL_OUTPUT = 64 * 1024;

export default defineTool({
  name: "execute",
  description:
    "Runs a command on the machine where the tools live and waits for it to end. Gives stdout, stderr, the exit code and the signal; a non-zero exit is reported as an error together with both streams. Without `args` the shell runs `command`, so pipes, `&&` and globs work; with `args` the program is started directly and nothing needs quoting. Runs in the workspace unless `cwd` says otherwise, has no terminal, and sees only basic environment variables plus `env`. On timeout the command and its process group are killed, and what it had written so far is returned. Of each stream the first and last 32 KB are kept. A process started with `&` goes on after the call, without its output being captured.",
  input: {
    command: s.text("A shell command line, or a program when `args` is given.", { minLength: 1 }),
    "args?": s.list(s.text(), "Arguments for the program. When given, even empty, no shell is involved."),
    "cwd?": s.text("Directory to run in, inside the workspace. Default: the workspace."),
    timeout: s.integer("Longest run in milliseconds.", {
      minimum: 1,
      maximum: LONGEST_TIMEOUT,
      default: USUAL_TIMEOUT,
    }),
    "env?": s.map(s.text(), "Environment variables to add."),
    "stdin?": s.text("Text for the command's standard input. Default: no input."),
    maxOutput: s.integer("Bytes to keep of each stream, half from the beginning and half from the end.", {
      minimum: 1_024,
      maximum: 1_048_576,
      default: USUAL_OUTPUT,
    }),
  },
  isClosed: true,
  output: {
    exitCode: s.anything({ type: ["integer", "null"], description: "Null when a signal ended the command." }),
    signal: s.anything({ type: ["string", "null"] }),
    stdout: s.text(),
    stderr: s.text(),
    stdoutBytes: s.integer("How much was written in all."),
    stderrBytes: s.integer(),
    ended: s.anything({ type: ["string", "null"], enum: ["timeout", "cancel", "flood", null] }),
    "backgroundGroup?": s.anything({
      type: ["integer", "null"],
      description: "Process group that is still running.",
    }),
    elapsed: s.number("Milliseconds."),
  },
  async handler({ command, args, cwd = ".", env, timeout, ...options }, { workspace, signal }) {
    const { real, stats } = await locateExisting(workspace, cwd);
    if (!stats.isDirectory())
      throw new Error(`Cannot run in "${cwd}": it is a file. Give a directory as cwd, or leave cwd out.`);
    const startedAt = performance.now();
    const outcome = await runCommand({
      ...options,
      command,
      args,
      cwd: real,
      env: childEnvironment(env),
      timeout,
      signal,
    }).catch((error: NodeJS.ErrnoException) => {
      throw notStarted(error, command, args);
    });
    const elapsed = Math.round(performance.now() - startedAt);
    const stdout = outcome.stdout.toString();
    const stderr = outcome.stderr.toString();
    const isError = outcome.exitCode !== 0 || outcome.ended !== undefined;
    const said = Object.entries({ stdout, stderr }).filter(([, output]) => output !== "");
    const parts = said.map(([name, output]) => `${name}:\n${output.trimEnd()}`);
    if (parts.length === 0) parts.push("It wrote nothing to stdout or stderr.");
    return {
      ...answer([summarise(outcome, elapsed, timeout), ...parts].join("\n\n"), {
        exitCode: outcome.exitCode,
        signal: outcome.exitSignal,
        stdout,
        stderr,
        stdoutBytes: outcome.stdout.size,
        stderrBytes: outcome.stderr.size,
        ended: outcome.ended ?? null,
        backgroundGroup: outcome.background ?? null,
        elapsed,
      }),
      isError,
    };
  },
  metadata: {
    category: "system",
    dangerous: true,
    confirm: "Run the command below on this machine, with the rights of the server?",
    openWorld: true,
    // The command's own limit is shorter; this leaves time to kill a command that ignores SIGTERM.
    timeout: LONGEST_TIMEOUT + 15_000,
    tags: ["shell", "command", "process"],
  },
});

function summarise(
  { ended, exitCode, exitSignal, background }: CommandOutcome,
  elapsed: number,
  timeout: number,
) {
  if (ended === "timeout") {
    return `Killed after ${timeout} ms, with its process group. Raise timeout (up to ${LONGEST_TIMEOUT}) if it needs longer; what it wrote before is below.`;
  }
  if (ended === "cancel") return `Cancelled after ${elapsed} ms and killed, with its process group.`;
  if (ended === "flood") {
    return `Killed because it wrote more than ${FLOOD_LIMIT / 1_048_576} MB. Send the output to a file, or filter it, and run it again.`;
  }
  const end = exitSignal === null ? `Exit code ${exitCode}` : `Ended by ${exitSignal}`;
  const rest =
    background === undefined
      ? ""
      : ` A background process is still running; its output is no longer captured. End it with: kill -- -${background}`;
  return `${end} after ${elapsed} ms.${rest}`;
}

function notStarted(
  error: NodeJS.ErrnoException,
  command: string,
  args: readonly string[] | undefined,
): Error {
  const program = args === undefined ? "the shell" : `"${command}"`;
  const advice =
    args !== undefined && /\s/.test(command)
      ? "With args, command must be the program alone; put the rest into args, or leave args out to use the shell."
      : "Give the name of an installed program or a path to one.";
  const messages: Readonly<Record<string, string>> = {
    ENOENT: `There is no program ${program} on this machine's PATH. ${advice}`,
    EACCES: `${program} is not executable. Check the path and its permissions.`,
    E2BIG: "The command line is too long. Pass the data through stdin or a file.",
    ERR_INVALID_ARG_VALUE:
      "The command, its arguments or its environment contain a NUL byte, which no process can be given.",
  };
  const message = messages[error.code ?? ""];
  return message === undefined ? error : new Error(message);
}
