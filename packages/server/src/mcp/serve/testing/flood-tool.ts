import { Gate } from "./gate.ts";

/** How often the tool speaks; it says 3 MB each time. */
export const FLOOD_ROUNDS = 25;

/** Says 3 MB in each round, as fast as clients are told things, and ends when the gate opens. */
export const floodTool: string = `name: "flood", execute: async ({ progress }) => {
  const message = "x".repeat(100_000);
  for (let at = 1; at <= ${FLOOD_ROUNDS} * 30; at++) {
    progress(at, undefined, message);
    if (at % 30 === 0) await new Promise((resolve) => setTimeout(resolve, 110));
  }
  globalThis.flooded++;
  await globalThis.${Gate.global}.promise;
  return "done";
}`;
