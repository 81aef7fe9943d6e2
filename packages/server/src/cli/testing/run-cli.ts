import { PassThrough, Readable, Writable } from "node:stream";
import type { Cli } from "../cli.ts";
import { runCommand } from "../run-command.ts";
import { type CliOutcome, cleanEnvironment, program } from "./spawn-cli.ts";

export type { CliOutcome };

export interface RunOptions {
  readonly cwd: string;
  /** Standard input; none when not given. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** `act` is called once, as soon as either output contains the text `says`. */
  readonly when?: { readonly says: string; readonly act: (running: RunningCommand) => void };
}

/** A running command, with the parts of a process that tests need. */
export interface RunningCommand {
  readonly stdout: Readable;
  /** Null as long as the command runs. */
  readonly exitCode: number | null;
  /** Does what Ctrl-C does. */
  kill(signal: "SIGINT"): void;
}

interface RunOutcome extends CliOutcome {
  /** Both outputs, in the order in which they were written. */
  readonly printed: string;
}

/** Runs a command in this process, as the program does, and waits for its end. */
export async function runCli(args: readonly string[], options: RunOptions): Promise<RunOutcome> {
  const forgetEnvironment = borrowEnvironment(options.env ?? {});
  let cli: Cli | undefined;
  let exitCode: number | null = null;
  let { when } = options;
  const copy = new PassThrough();
  const running: RunningCommand = {
    stdout: copy,
    get exitCode() {
      return exitCode;
    },
    kill: () => void cli?.interrupt(),
  };
  const written = { stdout: "", stderr: "", printed: "" };
  const output = (name: "stdout" | "stderr") =>
    new Writable({
      decodeStrings: false,
      write(text, _encoding, done) {
        written[name] += text;
        written.printed += text;
        if (name === "stdout") copy.write(text);
        const isSaid = when !== undefined && written.printed.includes(when.says);
        if (isSaid) {
          const { act } = when!;
          when = undefined;
          act(running);
        }
        done();
      },
    });
  copy.resume();
  try {
    const surroundings = {
      cwd: options.cwd,
      env: cleanEnvironment(options.env),
      stdin: Readable.from([options.input ?? ""]),
      stdout: output("stdout"),
      stderr: output("stderr"),
      program,
    };
    exitCode = await runCommand(args, surroundings, (started) => {
      cli = started;
    });
    return { code: exitCode, ...written };
  } finally {
    forgetEnvironment();
  }
}

/** How many commands have borrowed a variable of this process's environment, and what it was before. */
const borrowed = new Map<string, { count: number; readonly before: string | undefined }>();

/**
 * Sets variables of this process for one command, because tools and the store read the process's environment. Parallel
 * commands must want the same values. Returns a function that restores them.
 */
function borrowEnvironment(wanted: Readonly<Record<string, string>>): () => void {
  const names = [...Object.keys(wanted), "FORCE_COLOR", "NO_COLOR", "npm_lifecycle_event"];
  for (const name of names) {
    const loan = borrowed.get(name) ?? { count: 0, before: process.env[name] };
    loan.count++;
    borrowed.set(name, loan);
    setVariable(name, wanted[name]);
  }
  return () => {
    for (const name of names) {
      const loan = borrowed.get(name);
      if (loan === undefined || --loan.count > 0) continue;
      borrowed.delete(name);
      setVariable(name, loan.before);
    }
  };
}

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
