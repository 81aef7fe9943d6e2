import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Tool, ToolRegistry } from "../../index.ts";

function rack(parameters: object, metadata: Tool.Metadata = {}, settings = {}) {
  const registry = new ToolRegistry(settings);
  registry.register(Tool.define({ name: "t", parameters, metadata, execute: async ({ input }) => input }));
  return registry;
}

const schema = {
  type: "object",
  properties: { n: { type: "integer", minimum: 1, default: 3 }, email: { type: "string", format: "email" } },
};

describe("validate", () => {
  it("fills in defaults, also for no arguments at all", async () => {
    for (const input of [undefined, null, {}, "", "  ", "null"]) {
      expect((await rack(schema).execute("t", input)).structured).toEqual({ n: 3 });
    }
  });

  it("lists every path that is wrong, what was expected and what came", async () => {
    const result = await rack(schema).execute("t", { n: 0, email: "nobody" });
    expect(result.content).toMatch(/- n: .*1.*\n- email: .*email/s);
    expect(result.error?.details?.issues).toHaveLength(2);
    expect(result.error?.details?.issues).toMatchObject([{ path: "n" }, { path: "email" }]);
  });

  it("drops unknown keys and says so; strict tools and strict registries refuse them", async () => {
    const result = await rack(schema).execute("t", { n: 1, extra: true });
    expect(result.structured).toEqual({ n: 1 });
    expect(result.metadata).toMatchObject({ dropped: ["extra"] });
    expect((await rack(schema, { strict: true }).execute("t", { extra: 1 })).error?.code).toBe(
      "invalid_arguments",
    );
    expect((await rack(schema, {}, { strict: true }).execute("t", { extra: 1 })).error?.code).toBe(
      "invalid_arguments",
    );
    expect((await rack(schema, { strict: false }, { strict: true }).execute("t", { extra: 1 })).type).toBe(
      "json",
    );
  });

  it("never changes what the caller handed over", async () => {
    const input = { n: 1, extra: [1] };
    await rack(schema).execute("t", input);
    expect(input).toEqual({ n: 1, extra: [1] });
  });

  it("waits for asynchronous schemas and gives the tool what they make of the input", async () => {
    const taken = z.object({ name: z.string().refine(async (name) => name !== "taken", "is taken") });
    expect((await rack(taken).execute("t", { name: "free" })).type).toBe("json");
    expect((await rack(taken).execute("t", { name: "taken" })).content).toContain("is taken");
    const transformed = z.object({ when: z.string().transform((text) => text.length) });
    expect((await rack(transformed).execute("t", { when: "abc" })).structured).toEqual({ when: 3 });
  });

  it("a schema that turns out unusable is the tool's fault, not the caller's", async () => {
    const registry = rack({
      type: "object",
      properties: { a: { $ref: "#/properties/b" }, b: { minimum: 1, $dynamicRef: "#nowhere" } },
    });
    const result = await registry.execute("t", { a: 1 });
    if (result.type === "error")
      expect(["execution_failed", "invalid_arguments"]).toContain(result.error?.code);
    expect(registry.getCallHistory(1)).toHaveLength(1);
  });

  it("mends only what then fits, and keeps the reason for what it cannot mend", async () => {
    expect((await rack(schema).execute("t", "{n: 5}")).structured).toEqual({ n: 5 });
    const unfit = await rack(schema).execute("t", "{n: 'five'}");
    expect(unfit.content).toContain("not valid JSON");
    expect((await rack(schema).execute("t", `{n: 5 ${"x".repeat(300_000)}`)).error?.code).toBe(
      "invalid_arguments",
    );
  });
});
