import { attributeConsole } from "../helpers/console-output.ts";

/**
 * Tools run inside this process. What one of them must not do to it is kept from happening here: write to the
 * standard output that carries our own data, end the process, or take it down with an error that nobody caught.
 */
export interface ProtectedProcess {
  /** Writes to the real standard output. */
  readonly print: (text: string) => void;
  /** Resolves when all that was printed has been taken: a pipe takes only so much at a time. */
  readonly printed: () => Promise<void>;
  /** Ends the process. */
  readonly exit: (code: number) => never;
}

export interface ProtectOptions {
  /** Is told of every stray output, exit and error. */
  readonly onIncident: (incident: string) => void;
}

let protectedProcess: ProtectedProcess | undefined;

/** Takes effect once; later calls answer with the same. */
export function protectProcess({ onIncident }: ProtectOptions): ProtectedProcess {
  if (protectedProcess !== undefined) return protectedProcess;
  const write = process.stdout.write.bind(process.stdout);
  const exit = process.exit.bind(process);

  // console.log and process.stdout.write of a tool go where talk belongs: to standard error.
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
    // Not by ending the stream: a socket that others have too, such as the shell that started us, would end for all.
    printed: () => new Promise((resolve) => write("", () => resolve())),
    exit: (code) => exit(code),
  };
  return protectedProcess;
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
