import { type EgressAddress, forwardEgress } from "./egress.ts";

export interface ProgramBootstrapOptions {
  /** The user to become, when the process starts as root inside its namespaces. */
  readonly uid?: number;
  readonly egress?: EgressAddress;
}

/** One JSON line on file descriptor 3. Not argv: the environment may hold secrets, and argv is everybody's to read. */
export interface ProgramOrder {
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string>>;
}

/** The program's end, on file descriptor 3. */
export interface ProgramEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Why it could not be started. */
  readonly failure?: string;
}

/** The text that `node -e` is given to start one program inside a sandbox. */
export function programBootstrap(options: ProgramBootstrapOptions): string {
  return `(${startProgram})(${JSON.stringify(options)}, ${forwardEgress})`;
}

/** Only the text of this function reaches the sandbox: it uses its arguments and Node, nothing of this module. */
function startProgram(options: ProgramBootstrapOptions, forward: typeof forwardEgress): void {
  const { spawn } = process.getBuiltinModule("node:child_process");
  const { Socket } = process.getBuiltinModule("node:net");
  if (options.uid !== undefined) {
    process.setgroups?.([options.uid]);
    process.setgid?.(options.uid);
    process.setuid?.(options.uid);
  }
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  let received = "";
  channel.setEncoding("utf8");
  channel.on("error", () => process.exit(1));
  channel.on("data", (chunk) => {
    received += chunk;
    if (!received.endsWith("\n")) return;
    // The host's own line.
    const order = JSON.parse(received) as ProgramOrder;
    if (options.egress === undefined) run(order);
    else
      forward(
        options.egress,
        () => {},
        () => run(order),
      );
  });

  function run({ command: [file, ...args], environment }: ProgramOrder): void {
    const child = spawn(file, args, { env: environment, stdio: "inherit" });
    child.on("error", (error) => report({ exitCode: null, signal: null, failure: error.message }));
    child.on("exit", (exitCode, signal) => report({ exitCode, signal }));
  }

  function report(end: ProgramEnd): void {
    channel.end(JSON.stringify(end), () => process.exit(0));
  }
}
