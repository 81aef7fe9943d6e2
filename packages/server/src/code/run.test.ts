import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CodeHarness } from "./code-harness.fixture.ts";

let rack: CodeHarness;
const seen: unknown[] = [];
let open = 0;
let most = 0;
beforeAll(async () => {
  rack = await CodeHarness.open({
    approval: {
      ask: async ({ input }) => {
        await wait(Number(input.after ?? 0));
        return { decision: input.no ? "deny" : "allow" };
      },
    },
  });
  rack.add("double", async ({ input }) => ({ n: Object(input).n * 2 }));
  rack.add("json_text", async () => '  {"rows": [1, 2]}');
  rack.add("plain_text", async () => "12");
  rack.add("fails", async () => {
    throw new Error("the printer is on fire");
  });
  rack.add("late", async ({ input, signal }) => {
    most = Math.max(most, ++open);
    await wait(5, undefined, { signal }).finally(() => open--);
    return Object(input).n;
  });
  rack.add("forever", ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", reject)));
  rack.add("picture", async () => ({
    content: "a picture",
    type: "text",
    attachments: [{ type: "file", mime: "image/png", url: "data:image/png;base64,AAAA", filename: "a.png" }],
  }));
  rack.add("take", async ({ input }) => {
    seen.push(input);
    return "taken";
  });
  rack.add("pay", async () => "paid", { metadata: { dangerous: true } });
  rack.add("alone", async () => "no", { metadata: { callers: ["model"] } });
  rack.add("big", async () => "x".repeat(9 * 1024 * 1024));
}, 30_000);
afterAll(() => rack[Symbol.asyncDispose]());

describe("code over tools", { timeout: 30_000 }, () => {
  it("has await and return at its top level, with and without types", async () => {
    expect(await rack.value("const { n } = await tools.rack.double({ n: 21 });\nreturn n;")).toBe(42);
    const typed =
      "interface Row { n: number }\nconst rows: Row[] = [];\nenum Size { Small = 3 }\nfor (const n of [1, 2] as const) rows.push((await tools.rack.double({ n })) as Row);\nreturn [rows, Size.Small];";
    expect(await rack.value(typed)).toEqual([[{ n: 2 }, { n: 4 }], 3]);
    expect(await rack.value("```ts\nreturn await tools.double({ n: 2 });\n```")).toEqual({ n: 4 });
    expect(await rack.value("async () => {\n  return 7;\n}")).toBe(7);
  });

  it("gives structured values, parsed JSON text, and other text as it is", async () => {
    const code =
      "return [await tools.rack.double({ n: 1 }), await tools.rack.json_text(), await tools.rack.plain_text()]";
    expect(await rack.value(code)).toEqual([{ n: 2 }, { rows: [1, 2] }, "12"]);
  });

  it("throws the error of a tool, with its code, and says the line of what nobody caught", async () => {
    const caught =
      "try { await tools.rack.fails() } catch (error) { return [error.name, error.code, error.recoverable, error.message, error instanceof Error] }";
    expect(await rack.value(caught)).toEqual([
      "ToolError",
      "execution_failed",
      true,
      "the printer is on fire",
      true,
    ]);
    const { error } = await rack.run("const a: number = 1;\n\nawait tools.rack.fails();");
    expect(error?.message).toBe("Line 3: a tool failed (execution_failed): the printer is on fire");
    expect(error?.details).toMatchObject({ line: 3, causeCode: "execution_failed" });
    const own = await rack.run("console.log('before');\nconst a: any = null;\nreturn a.b;");
    expect(own.content).toBe(
      "Line 3: TypeError: Cannot read properties of null (reading 'b')\n\nconsole:\nbefore",
    );
    expect(own.error?.recoverable).toBe(true);
  });

  it("gives handles of files, which other tools are given whole, and returns the files with the result", async () => {
    const code =
      "const { result, attachments: [file] } = await tools.rack.picture();\nawait tools.rack.take({ file, list: [file] });\nreturn { result, file };";
    const { attachments, structured } = await rack.run(code);
    expect(structured).toMatchObject({
      result: "a picture",
      file: { mimeType: "image/png", filename: "a.png" },
    });
    expect(JSON.stringify(structured)).not.toContain("AAAA");
    expect(attachments).toHaveLength(1);
    const url = "data:image/png;base64,AAAA";
    expect(seen).toEqual([{ file: url, list: [url] }]);
  });

  it("finds and describes tools, names steps, and prints", async () => {
    expect(await rack.value("return (await search('double')).map(({ path }) => path)[0]")).toBe(
      "tools.rack.double",
    );
    expect(await rack.value("return (await describe('rack.double')).signature")).toContain("double(");
    const printed = await rack.run("await step('first', async () => console.log('a', { b: 1 }))");
    expect(printed.content).toBe("console:\na { b: 1 }");
    expect((await rack.run("1 + 1")).content).toContain("Write return before what you want to see");
  });

  it("makes 1,000 calls at once, 64 of them at a time, and no more than 1,000", async () => {
    const code = (count: number) =>
      `return (await Promise.all(Array.from({ length: ${count} }, (_, n) => tools.rack.late({ n: n })))).length`;
    expect(await rack.value(code(1000))).toBe(1000);
    expect(most).toBe(64);
    expect((await rack.run(code(1001))).content).toContain("1000 calls, which is as many as it may");
  });

  it("takes no more than 64 MiB from tools", async () => {
    const { content } = await rack.run("for (;;) await tools.rack.big()");
    expect(content).toContain("more than 64 MiB");
  });

  it("keeps tools out of code whose authors say so, and the tools of the run itself", async () => {
    expect((await rack.run("return await tools.rack.alone()")).content).toContain("cannot be called by code");
    expect((await rack.run("const t = tools; return await t.rack['al' + 'one']()")).content).toContain(
      "cannot be called by code",
    );
    expect((await rack.run("return await tools['toolrack_' + 'run']({ code: '1' })")).content).toContain(
      "There is no tool",
    );
  });

  it("refuses what cannot run before it takes a worker, and names the lines", async () => {
    const before = rack.harness.sandbox.stats();
    const { error } = await rack.run(
      "const a = 1;\nawait tools.rack.doubel({ n: 1 });\nawait tools.nowhere.x();",
    );
    expect(error?.code).toBe("invalid_arguments");
    expect(error?.message).toBe(
      "The code was not run.\nLine 2: There is no tool tools.rack.doubel. Did you mean tools.rack.double?\nLine 3: There is no tool tools.nowhere.x. search(words) finds those that there are.",
    );
    expect((await rack.run("const a = 1;\nconst = 2;")).content).toContain("Line 2: Unexpected token");
    expect((await rack.run('import fs from "fs";')).content).toContain("Line 1: Code has no imports");
    expect(rack.harness.sandbox.stats()).toEqual(before);
  });

  it("does not count the time in which a person decides, and counts all other time", async () => {
    const limit = { timeout: 2_000 };
    const { content } = await rack.run("return await tools.rack.pay({ after: 2500 })", {}, limit);
    expect(content).toBe("paid");
    const late = await rack.run("await new Promise((done) => setTimeout(done, 60000))", {}, { timeout: 200 });
    expect(late.error?.code).toBe("timed_out");
  });

  it("passes a refusal on to the code", async () => {
    const code = "try { await tools.rack.pay({ no: true }) } catch ({ code }) { return code }";
    expect(await rack.value(code)).toBe("approval_denied");
  });

  it("ends its calls and its worker when it is cancelled", async () => {
    const caller = new AbortController();
    const ended: string[] = [];
    const stop = rack.registry.subscribe((event) => {
      if (event.type === "state" && event.toolName === "forever" && event.status === "running")
        caller.abort("enough");
      if (event.type === "record") ended.push(`${event.record.toolName} ${event.record.error?.code}`);
    });
    const { error } = await rack.run("await tools.rack.forever()", { signal: caller.signal });
    stop();
    expect(error?.code).toBe("cancelled");
    expect(ended).toEqual(expect.arrayContaining(["forever cancelled", "toolrack_run cancelled"]));
    await expect.poll(() => rack.harness.sandbox.stats().busy).toBe(0);
  });

  it("records each call with its line, as a child of the run", async () => {
    const records: { line: number | undefined; parent: string | undefined }[] = [];
    const stop = rack.registry.subscribe((event) => {
      if (event.type !== "record" || event.record.toolName !== "double") return;
      records.push({ line: event.record.flags?.line, parent: event.record.parentCallId });
    });
    await rack.run(
      "type A = number;\nconst a: A = 1;\nawait tools.rack.double({ n: a });\nawait tools.rack.double({ n: 2 });",
      { callId: "lines" },
    );
    stop();
    expect(records).toEqual([
      { line: 3, parent: "lines" },
      { line: 4, parent: "lines" },
    ]);
  });

  it("lets a caller reach no more than without code", async () => {
    const allow = ({ name }: { name: string }) => name === "toolrack_run" || name === "double";
    const { content } = await rack.run("return await tools.rack['plain' + '_text']()", { allow });
    expect(content).toContain("There is no tool tools.rack.plain_text");
    expect((await rack.run("return (await search('text')).length", { allow })).content).toBe("0");
  });
});

describe("two runs", { timeout: 30_000 }, () => {
  it("see nothing of each other", async () => {
    const leave =
      "globalThis.left = 1; Array.prototype.left = 1; Object.prototype.left = 1; setInterval(() => {}, 1); const { env, getBuiltinModule } = globalThis.process; getBuiltinModule('fs').writeFileSync((env.TMPDIR ?? '/tmp') + '/left', 'x'); return 'done'";
    const look =
      "const { env, getBuiltinModule } = globalThis.process; return [typeof globalThis.left, typeof [].left, typeof {}.left, getBuiltinModule('fs').existsSync((env.TMPDIR ?? '/tmp') + '/left')]";
    expect(await rack.value(leave)).toBe("done");
    expect(await rack.value(look)).toEqual(["undefined", "undefined", "undefined", false]);
    const [one, other] = await Promise.all([rack.value(leave), rack.value(look)]);
    expect([one, other]).toEqual(["done", ["undefined", "undefined", "undefined", false]]);
  });

  it("have other random numbers, and times that go on with their calls", async () => {
    const code = "return [Math.random(), crypto.randomUUID()]";
    expect(await rack.value(code)).not.toEqual(await rack.value(code));
    const clock =
      "const a = Date.now(); await tools.rack.late({}); const b = Date.now(); const until = Date.now() + 50; while (Date.now() < until); return [b >= a, new Date().getFullYear() > 2000, typeof Date(), new Date(0).toISOString()]";
    expect(await rack.value(clock)).toEqual([true, true, "string", "1970-01-01T00:00:00.000Z"]);
  });
});
