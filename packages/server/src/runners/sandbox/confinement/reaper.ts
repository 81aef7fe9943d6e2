import { type ChildProcess, spawn } from "node:child_process";

/**
 * A small shell that outlives the server by a moment: when the server is gone, however it went, the shell's input
 * ends, it kills the processes it was told of and removes their directory. A worker that loops for ever would not notice by itself.
 */
export class Reaper {
  readonly #shell: ChildProcess;

  constructor(directory: string) {
    this.#shell = startShell(directory);
  }

  /** `pid` leads a process group. */
  add(pid: number): void {
    this.#tell(`add ${pid}`);
  }

  remove(pid: number): void {
    this.#tell(`remove ${pid}`);
  }

  /** Kills what has been added and not removed, and removes the directory. */
  close(): void {
    this.#shell.stdin?.end();
  }

  #tell(order: string): void {
    this.#shell.stdin?.write(`${order}\n`);
  }
}

// Not all shells take `--` after `kill -9`; after `-s` they do.
const script = `
while read -r action pid; do
  if [ "$action" = add ]; then pids="$pids $pid"; continue; fi
  rest=
  for other in $pids; do [ "$other" = "$pid" ] || rest="$rest $other"; done
  pids=$rest
done
for pid in $pids; do kill -s KILL -- "-$pid"; done
rm -rf -- "$1"
`;

function startShell(directory: string): ChildProcess {
  const shell = spawn("/bin/sh", ["-c", script, "sh", directory], {
    stdio: ["pipe", "ignore", "ignore"],
    env: {},
    cwd: "/",
    // An interrupt from the terminal goes to the server's group and is the server's to handle.
    detached: true,
  });
  shell.on("error", () => {});
  shell.stdin?.on("error", () => {});
  shell.unref();
  // The pipe is a socket, which can be told not to keep the server alive.
  (shell.stdin as unknown as { unref(): void }).unref();
  return shell;
}
