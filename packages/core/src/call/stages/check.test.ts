import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Tool, type ToolError, ToolRegistry } from "../../index.ts";

async function run(value: unknown, config: { outputSchema?: object; metadata?: Tool.Metadata } = {}) {
  const registry = new ToolRegistry();
  registry.register(Tool.define({ name: "t", parameters: {}, execute: async () => value, ...config }));
  return {
    result: await registry.execute("t", {}, { callId: "c" }),
    record: registry.getCallHistory(1)[0],
    state: registry.getState("c"),
  };
}

describe("check", () => {
  const outputSchema = z.object({ total: z.number() });

  it("holds a result to the output schema", async () => {
    expect((await run({ total: 1 }, { outputSchema })).result.structured).toEqual({ total: 1 });
    const { result, record } = await run({ total: "many" }, { outputSchema });
    expect(result.error).toMatchObject({ code: "execution_failed" });
    expect(result.content).toMatch(/does not fit its own output schema.*total/);
    expect(record?.status).toBe("error");
    expect((await run("text only", { outputSchema })).result.type).toBe("error");
  });

  it("only notes a misfit of a tool that is not held to it", async () => {
    const { result, record } = await run(
      { total: "many" },
      { outputSchema, metadata: { outputCheck: "warn" } },
    );
    expect(result.type).toBe("json");
    expect(result.metadata?.outputMismatch).toContain("total");
    expect(record?.flags?.outputMismatch).toContain("total");
  });

  it("holds JSON text to the output schema, and gives its value", async () => {
    const text = JSON.stringify({ total: 2 }, null, 2);
    const { result } = await run({ content: [{ type: "text", text }] }, { outputSchema });
    expect(result).toEqual({ content: text, type: "json", structured: { total: 2 } });
    const misfit = await run({ content: [{ type: "text", text: '{"total":"many"}' }] }, { outputSchema });
    expect(misfit.result.error?.message).toContain("total");
    const data = await run({ content: [{ type: "text", text: { total: 3 } }] }, { outputSchema });
    expect(data.result).toMatchObject({ type: "json", structured: { total: 3 } });
  });

  it("an error that the tool returned is an error in result, state and record, content kept", async () => {
    const { result, record, state } = await run({
      content: [
        { type: "text", text: "disk full" },
        { type: "image", data: "aGk=", mimeType: "image/png" },
      ],
      isError: true,
    });
    expect(result).toMatchObject({
      type: "error",
      content: "disk full",
      error: { code: "execution_failed", details: { returned: true } },
    });
    expect(result.attachments).toHaveLength(1);
    expect(record?.status).toBe("error");
    expect(state?.status).toBe("error");
    expect((await run({ success: false })).result.type).toBe("error");
    expect((await run({ content: "", type: "error" })).result.content).toContain("without saying which");
  });

  it("takes the title of an older result into the state", async () => {
    expect((await run({ title: "Did it", output: "x" })).state).toMatchObject({
      title: "Did it",
      output: "x",
    });
  });
});

it.each([
  ["itself", (error: Error) => error],
  ["in success: false", (error: Error) => ({ success: false, error })],
  ["beside isError", (error: Error) => ({ isError: true, error })],
  [
    "beside MCP content",
    (error: Error) => ({ isError: true, content: [{ type: "text", text: "full" }], error }),
  ],
])("an Error that a tool returns %s gives the call its stack", async (_, wrap) => {
  const registry = new ToolRegistry();
  const errors: (ToolError | undefined)[] = [];
  registry.subscribe((event) => void (event.type === "record" && errors.push(event.error)), ["record"]);
  const made = new Error("full");
  registry.register(Tool.define({ name: "t", parameters: {}, execute: async () => wrap(made) }));
  const result = await registry.execute("t");
  expect(result).toMatchObject({ type: "error", content: expect.stringContaining("full") });
  expect(result).not.toHaveProperty("cause");
  expect(errors[0]?.stack).toBe(made.stack);
});
