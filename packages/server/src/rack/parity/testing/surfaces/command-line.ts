import { runCli } from "../../../../cli/testing/run-cli.ts";
import { spawnCli } from "../../../../cli/testing/spawn-cli.ts";
import type { ParityRack } from "../parity-rack.ts";
import { answerOfResult, type Surface } from "../surface.ts";

/** Makes calls with `toolrack call`: in this process, but for the one that is stopped, whose tool says so to its own process. */
export function commandLine({ directory }: ParityRack): Surface {
  const inTurn = queue(2);
  return {
    name: "command line",
    caller: "cli",
    lacks: { progress: "It is drawn on a terminal, and there is none." },
    make({ tool, args, isCancelled }, session) {
      const text = typeof args === "string" ? args : JSON.stringify(args);
      const words = ["call", tool, "--args", text, "--session", session, "--json", "--dir", directory];
      const when = {
        says: "waiting to be stopped",
        act: (child: { kill(signal: "SIGINT"): unknown }) => void child.kill("SIGINT"),
      };
      return inTurn(async () => {
        const cwd = directory;
        const outcome = await (isCancelled ? spawnCli(words, { cwd, when }) : runCli(words, { cwd }));
        const { stdout, stderr } = outcome;
        if (stdout === "") throw new Error(`toolrack call ended with ${outcome.code}: ${stderr}`);
        const { result, error } = JSON.parse(stdout);
        if (result === undefined) return { answer: { text: error.message, refusal: error.code } };
        return { answer: answerOfResult(result) };
      });
    },
  };
}

/** Returns a function that runs at most `places` pieces of work at once, because commands are expensive. */
function queue(places: number): <Value>(work: () => Promise<Value>) => Promise<Value> {
  const ends: Promise<unknown>[] = Array.from({ length: places }, () => Promise.resolve());
  let turn = 0;
  return (work) => {
    const place = turn++ % places;
    const done = ends[place]!.then(work);
    ends[place] = done.catch(() => {});
    return done;
  };
}
