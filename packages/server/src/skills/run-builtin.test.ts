import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestLibrary } from "./testing/library.fixture.ts";

const secret = "s3cr3t/value+1";
const given: unknown[] = [];

let fixture: TestLibrary;
beforeAll(async () => {
  fixture = await TestLibrary.open({ secrets: { KEY: secret } });
  fixture.registry.register(
    Tool.define({
      name: "repeat",
      description: "Repeats.",
      parameters: { type: "object", properties: { text: { type: "string" }, key: {}, list: {} } },
      execute: async ({ input }) => {
        given.push(input);
        return { input };
      },
    }),
  );
});
afterAll(() => fixture[Symbol.asyncDispose]());

const add = (trusted: boolean, fixed: Record<string, unknown>) =>
  fixture.library.add({
    skill: { name: `S-${given.length}-${trusted}`, trusted },
    tools: [{ name: "say", type: "builtin", command: "repeat", usage: JSON.stringify({ arguments: fixed }) }],
    files: [],
  });

describe("a builtin tool of a skill", () => {
  it("gives the other tool secrets by reference, and shows them nowhere", async () => {
    const { tools } = await add(true, { key: "{{secret:KEY}}", list: [{ deep: "k-{{secret:KEY}}" }] });
    const result = await fixture.registry.execute(tools[0]!.id, { text: "{{secret:KEY}}" });
    expect(given.at(-1)).toEqual({
      text: "{{secret:KEY}}",
      key: secret,
      list: [{ deep: `k-${secret}` }],
    });
    expect(result.structured).toEqual({
      input: { text: "{{secret:KEY}}", key: "[redacted]", list: [{ deep: "k-[redacted]" }] },
    });
    const history = fixture.registry.getCallHistory();
    expect(history.map(({ toolName }) => toolName)).toContain("repeat");
    expect(JSON.stringify([result, history, fixture.messages])).not.toMatch(/s3cr3t/);
  });

  it("that came from elsewhere is given none until it is trusted", async () => {
    const { id, tools } = await add(false, { key: "{{secret:KEY}}" });
    const before = given.length;
    const refused = await fixture.registry.execute(tools[0]!.id, { text: "x" });
    expect([refused.type, refused.content]).toEqual(["error", expect.stringContaining("skills trust")]);
    expect(given).toHaveLength(before);
    await fixture.library.update(id, { trusted: true });
    expect((await fixture.registry.execute(tools[0]!.id, { text: "x" })).type).not.toBe("error");
    expect(given.at(-1)).toEqual({ text: "x", key: secret });
  });

  it("says which secret it lacks", async () => {
    const { tools } = await add(true, { key: "{{secret:NOWHERE}}" });
    const { content } = await fixture.registry.execute(tools[0]!.id, { text: "x" });
    expect(content).toContain("toolrack secrets set NOWHERE");
  });
});
