import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { attempts, signsOfEscape } from "../sandbox/escape/escape-suite.fixture.ts";
import { Trap } from "../sandbox/escape/trap.fixture.ts";
import { CodeHarness, node } from "./code-harness.fixture.ts";

let rack: CodeHarness;
let trap: Trap;
beforeAll(async () => {
  rack = await CodeHarness.open();
  trap = await Trap.set();
}, 30_000);
afterAll(async () => {
  trap.close();
  await rack[Symbol.asyncDispose]();
});

describe("the ways out of the sandbox that are known", { timeout: 30_000 }, () => {
  it.each(attempts)("as code: $name", async ({ body }) => {
    // Some attempts import, which code cannot; they are written with require too.
    const places = `const trap = ${JSON.stringify(trap.places)};\n`;
    const signs = await signsOfEscape(trap, async (said) => {
      const { content, error } = await rack.run(`${places}${node}${body}`, {}, { timeout: 10_000 });
      said(error?.message);
      return content;
    });
    expect(signs).toEqual([]);
  });
});
