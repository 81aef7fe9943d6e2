import { fork } from "node:child_process";
import type { Subject } from "./suite.ts";

const limitMilliseconds = 180_000;

export type SampleMessage = { readonly sample: unknown } | { readonly failure: string };

/** Takes one sample in a fresh process, so that no contestant warms or litters another's heap. */
export function sampleInChild(
  suiteName: string,
  subject: Subject,
  limit = limitMilliseconds,
): Promise<SampleMessage> {
  return new Promise((resolve) => {
    const child = fork(new URL("./child.ts", import.meta.url), [suiteName, JSON.stringify(subject)], {
      execArgv: ["--conditions=toolrack-source"],
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      // A group of its own, with all processes that the sample starts: one that is left keeps a pipe open, and a core busy.
      detached: true,
    });
    const endAll = () => {
      try {
        process.kill(-child.pid!, "SIGKILL");
      } catch {
        child.kill("SIGKILL");
      }
    };
    const timer = setTimeout(endAll, limit);
    child.on("exit", () => {
      clearTimeout(timer);
      endAll();
    });
    let message: SampleMessage | undefined;
    let complaint = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      complaint = (complaint + chunk).slice(-2000);
    });
    // The only sender is child.ts, which sends exactly this type.
    child.on("message", (received) => {
      message = received as SampleMessage;
    });
    child.on("close", (code, signal) => {
      resolve(
        message ?? { failure: `ended without an answer (${signal ?? `code ${code}`}) ${complaint}`.trim() },
      );
    });
  });
}
