import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { cleanEnvironment } from "../cli/testing/spawn-cli.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";
import type { SoakReport } from "./testing/soak-process.ts";

const CONVERSATIONS = 200;
const WARM_UP = 1;
const MEASURED = 2;
/** Turns that have ended stay readable for a while, so many of them. */
const RECENT = 100;
/** What a conversation may leave in memory. One that is held on to weighs more than 20,000. */
const MOST_BYTES = 14_000;

it("leaves nothing in memory of 200 conversations at once, round after round", {
  timeout: 120_000,
}, async () => {
  await using rack = await ChatRack.start({
    files: {
      "tools/echo.js": `
import { Tool } from "@toolrack/core";
export const echo = Tool.define({ name: "echo", description: "Echoes.", metadata: { readOnly: true },
  parameters: { type: "object", properties: { number: { type: "number" } }, required: ["number"] },
  execute: async ({ input }) => "echo " + input.number + ". " + "y".repeat(5000) });
`,
    },
  });
  await rack.serving.close();
  rack.script((request) => {
    const number = Number(
      /\d+/.exec(String(request.messages.findLast(({ role }) => role === "user")?.content)),
    );
    return answersIn(request).length === 0
      ? called(["echo", { number }])
      : { content: `done ${number}. ${"z".repeat(200)}` };
  });
  const script = resolve(import.meta.dirname, "testing/soak-process.ts");
  const options = ["--expose-gc", "--no-warnings", "--conditions=toolrack-source"];
  const child = spawn(
    process.execPath,
    [...options, script, ...[CONVERSATIONS, WARM_UP, MEASURED].map(String)],
    { cwd: rack.workspace.directory, env: cleanEnvironment(), stdio: ["ignore", "pipe", "inherit"] },
  );
  const [printed] = await Promise.all([text(child.stdout), once(child, "close")]);
  const { heap, live, timers, wrong }: SoakReport = JSON.parse(printed);

  expect(wrong).toEqual([]);
  expect(live).toMatchObject({ loops: 0, clocks: 0 });
  expect(live.turns).toBeLessThanOrEqual(RECENT);
  expect(timers[1]).toBeLessThanOrEqual(timers[0]);
  const grown = (heap.at(-1)! - heap[0]!) / (MEASURED * CONVERSATIONS);
  expect(grown, `bytes for each conversation; the heap was ${heap.join(", ")}`).toBeLessThan(MOST_BYTES);
});
