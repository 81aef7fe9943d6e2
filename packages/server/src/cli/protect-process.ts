import { attributeConsole } from "../helpers/console-output.ts";

/**
 * Tools run inside this process. The protection keeps them from writing to the standard output that carries
 * our data, from ending the process, and from crashing it with an uncaught error.
 */
export interface ProtectedProcess {
  /** Writes to the real standard output. */
  readonly print: (text: string) => void;
  /** Resolves when all output has been written: a pipe may take it in several parts. */
  readonly printed: () => Promise<void>;
  readonly exit: (code: number) => never;
}

export interface ProtectOptions {
  /** Called for every attempt to exit and every uncaught error. */
  readonly onIncident: (incident: string) => void;
}

let protectedProcess: ProtectedProcess | undefined;

/** Takes effect once; later calls return the same object. */
export function protectProcess({ onIncident }: ProtectOptions): ProtectedProcess {
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
