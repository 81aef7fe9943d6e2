import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { DatabaseEngine, Statement, StatementResult } from "./statement.ts";

export interface SqliteRequest {
  readonly file: string;
  readonly statement: Statement;
}

/** `"ready"`: the statement has run and waits for the commit message. */
export type SqliteAnswer = { readonly result: StatementResult } | { readonly error: string } | "ready";

/** Children that must not outlive the server. */
const running = new Set<ChildProcess>();
let isWatchingExit = false;

/**
 * Runs every statement in a child process. SQLite blocks the calling thread, and a heavy query can only be ended from
 * outside: even terminating a worker thread does not stop it. SQLite undoes the open transaction of a process that
 * died.
 */
export function createSqliteEngine(file: string): DatabaseEngine {
  return {
    name: "SQLite",
    async run(statement, signal) {
      signal.throwIfAborted();
      const child = start();
      const kill = () => child.kill("SIGKILL");
      signal.addEventListener("abort", kill, { once: true });
      const ended = once(child, "exit").catch(() => {});
      try {
        let answer = await ask(child, { file, statement });
        if (answer === "ready") {
          signal.throwIfAborted();
          signal.removeEventListener("abort", kill);
          answer = await ask(child, "commit");
        }
        if (answer === "ready") throw new Error("The process that ran the statement did not commit it.");
        if ("error" in answer) throw new Error(answer.error);
        return answer.result;
      } finally {
        signal.removeEventListener("abort", kill);
        if (child.connected) kill();
        await ended;
        running.delete(child);
      }
    },
  };
}

function start(): ChildProcess {
  if (!isWatchingExit) {
    isWatchingExit = true;
    process.on("exit", () => {
      for (const child of running) child.kill("SIGKILL");
    });
  }
  // The child's program lies beside this file: TypeScript in the sources, JavaScript in a build.
  const program = fileURLToPath(import.meta.url).replace(/sqlite(\.\w+)$/, "sqlite-child$1");
  const { TZ, TMPDIR } = process.env;
  const child = fork(program, [], {
    execArgv: ["--disable-sigusr1", "--disable-warning=ExperimentalWarning", "--max-old-space-size=512"],
    env: { ...(TZ !== undefined && { TZ }), ...(TMPDIR !== undefined && { TMPDIR }) },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  running.add(child);
  return child;
}

/** Resolves with the child's next message; rejects when the child ends before. */
function ask(child: ChildProcess, request: SqliteRequest | "commit"): Promise<SqliteAnswer> {
  return new Promise((resolve, reject) => {
    let errorOutput = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      errorOutput = (errorOutput + text).slice(-2_000);
    });
    child.once("message", (answer: SqliteAnswer) => resolve(answer));
    child.once("error", reject);
    child.once("close", (code, signal) => {
      const isOutOfMemory = /heap out of memory/.test(errorOutput);
      const reason = isOutOfMemory
        ? "it needed too much memory"
        : `exit code ${code}, signal ${signal}. ${errorOutput}`;
      reject(new Error(`The process that ran the statement ended early: ${reason}`.trimEnd()));
    });
    child.send(request, (error) => {
      if (error !== null) reject(error);
    });
  });
}
