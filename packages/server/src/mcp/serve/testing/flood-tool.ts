import { Gate } from "./gate.ts";

/** How many rounds of 3 MB of progress messages the tool sends. */
export const FLOOD_ROUNDS = 25;

/**
 * A tool that sends 3 MB of progress messages in each round, with a pause after it, and ends when the gate
 * opens.
 */
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
