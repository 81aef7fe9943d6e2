import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, resolve } from "node:path";

const main = resolve(import.meta.dirname, "../../main.ts");
const installed = resolve(import.meta.dirname, "../../../../../node_modules/.bin");

export interface CliOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface SpawnOptions {
  readonly cwd: string;
  /** Standard input; none when not given. */
  readonly input?: string;
  readonly env?: Record<string, string>;
  /** `act` is called once with the process, as soon as either output contains the text `says`. */
  readonly when?: { readonly says: string; readonly act: (child: ChildProcess) => void };
}

/** The words that run the real program. */
export const program: readonly string[] = [process.execPath, "--conditions=toolrack-source", main];

/** Runs the real program and waits for its end. */
export async function spawnCli(args: readonly string[], options: SpawnOptions): Promise<CliOutcome> {
  const [file, ...words] = program;
  const child = spawn(file!, [...words, ...args], { cwd: options.cwd, env: cleanEnvironment(options.env) });
  let stdout = "";
  let stderr = "";
  let when = options.when;
  const checkOutput = () => {
    if (when === undefined || !(stdout + stderr).includes(when.says)) return;
    const { act } = when;
    when = undefined;
    act(child);
  };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    stdout += text;
    checkOutput();
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    stderr += text;
    checkOutput();
  });
  child.stdin.end(options.input ?? "");
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
}

/** The program's output must not depend on how the tests were started. */
export function cleanEnvironment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const environment = { ...process.env };
  for (const name of ["npm_lifecycle_event", "FORCE_COLOR", "NO_COLOR", "TOOLRACK_DEBUG"])
    delete environment[name];
  // As if the program were installed.
  environment.PATH = [installed, environment.PATH].join(delimiter);
  return { ...environment, ...extra };
}
