import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { z as z3 } from "zod3";
import { Tool, ToolRegistry } from "../index.ts";
import type { AnyInput } from "../schema/types.ts";
import { tool } from "./define.ts";

async function run(info: Tool.Info, input: unknown) {
  const registry = new ToolRegistry();
  registry.register(info);
  return registry.execute(info.name, input);
}

describe("Tool.define", () => {
  it("types the input from a Zod 4 schema", async () => {
    const info = Tool.define({
      name: "add",
      parameters: z.object({ a: z.number(), b: z.number().default(1), tags: z.array(z.string()).optional() }),
      execute: async ({ input }) => {
        expectTypeOf(input).toEqualTypeOf<{ a: number; b: number; tags?: string[] | undefined }>();
        return input.a + input.b;
      },
    });
    expect((await run(info, { a: 2 })).content).toBe("3");
  });

  it("takes a config whose parameters are any Zod schema and whose execute takes any context", async () => {
    const config: {
      name: string;
      parameters: z.ZodType;
      execute: (ctx: Tool.Context) => Promise<Tool.Result>;
    } = {
      name: "city",
      parameters: z.object({ city: z.string() }),
      execute: async (ctx) => ({ content: ctx.input.city.toUpperCase(), type: "text" }),
    };
    const info = Tool.define(config);
    const parameters: z.ZodType = info.parameters;
    expect(parameters).toBe(config.parameters);
    expect((await run(info, { city: "Oslo" })).content).toBe("OSLO");
  });

  it("types the input from Zod 3, Valibot and JSON Schema", async () => {
    Tool.define({
      name: "three",
      parameters: z3.object({ a: z3.string() }),
      execute: async ({ input }) => {
        expectTypeOf(input.a).toEqualTypeOf<string>();
      },
    });
    Tool.define({
      name: "valibot",
      parameters: v.object({ a: v.number() }),
      execute: async ({ input }) => {
        expectTypeOf(input.a).toEqualTypeOf<number>();
      },
    });
    const info = Tool.define({
      name: "json",
      parameters: {
        type: "object",
        properties: { unit: { type: "string", enum: ["c", "f"] }, days: { type: "integer" } },
        required: ["unit"],
      },
      execute: async ({ input }) => {
        expectTypeOf(input.unit).toEqualTypeOf<"c" | "f">();
        expectTypeOf(input.days).toEqualTypeOf<number | undefined>();
        return input.unit;
      },
    });
    expect((await run(info, { unit: "c" })).content).toBe("c");
    expect((await run(info, { unit: "k" })).error?.code).toBe("invalid_arguments");
  });

  it("takes the older shape with arguments first", async () => {
    const info = Tool.define("shout", {
      description: "Shouts.",
      parameters: z.object({ text: z.string() }),
      execute: async (args, ctx) => ({
        title: "Shouted",
        output: `${args.text.toUpperCase()}! (${ctx.callID === ctx.callId})`,
        metadata: { loud: true },
      }),
    });
    expect(info).toMatchObject({ name: "shout", description: "Shouts." });
    expect(await run(info, { text: "hey" })).toMatchObject({
      content: "HEY! (true)",
      metadata: { loud: true },
    });
  });

  it("takes an init function, and a promise of a tool comes from an asynchronous one", async () => {
    const body = { parameters: z.object({}), execute: async () => "made" };
    expect(
      (
        await run(
          Tool.define("sync", () => body),
          {},
        )
      ).content,
    ).toBe("made");
    const later = Tool.define("async", async () => body);
    expect(later).toBeInstanceOf(Promise);
    expect((await run(await later, {})).content).toBe("made");
  });

  it("types the arguments of what an init function returns, sync and async", async () => {
    const sync = Tool.define("sync", () => ({
      parameters: z.object({ city: z.string() }),
      execute: async (args, context) => {
        expectTypeOf(args).toEqualTypeOf<{ city: string }>();
        return `${args.city} ${context.callId !== ""}`;
      },
    }));
    expectTypeOf(sync).toEqualTypeOf<Tool.Info>();
    expect((await run(sync, { city: "Oslo" })).content).toBe("Oslo true");

    const later = Tool.define("later", async () => ({
      parameters: { type: "object", properties: { unit: { enum: ["c", "f"] } }, required: ["unit"] },
      execute: (args, context) => {
        expectTypeOf(args).toEqualTypeOf<{ unit: "c" | "f" }>();
        return `${args.unit} ${context.callId !== ""}`;
      },
    }));
    expectTypeOf(later).toEqualTypeOf<Promise<Tool.Info>>();
    expect((await run(await later, { unit: "c" })).content).toBe("c true");
  });

  it("gives a record where the parameters are of any type", () => {
    // biome-ignore lint/suspicious/noExplicitAny: what a host reads from a file has this type.
    const read: any = { type: "object" };
    Tool.define({
      name: "read",
      parameters: read,
      execute: ({ input }) => expectTypeOf(input).toEqualTypeOf<AnyInput>(),
    });
    Tool.define("read", {
      parameters: read,
      execute: (args) => expectTypeOf(args).toEqualTypeOf<AnyInput>(),
    });
  });

  it("hangs an opencode-style tool under a name", async () => {
    const weather = tool({
      description: "The weather.",
      args: { city: z.string(), days: z.number().optional() },
      execute: async (args, context) => {
        expectTypeOf(args.city).toEqualTypeOf<string>();
        return `${args.city} ${args.days ?? 1} ${context.abort.aborted}`;
      },
    });
    const info = Tool.define("weather", weather);
    expect((await run(info, { city: "Oslo" })).content).toBe("Oslo 1 false");
    expect((await run(info, {})).content).toContain("city");
  });

  it("keeps this inside a tool that is written as an object with methods", async () => {
    const counter = {
      count: 4,
      parameters: z.object({}),
      async execute() {
        return (this as unknown as { count: number }).count;
      },
    };
    expect((await run(Tool.define("counter", counter), {})).content).toBe("4");
  });

  it("lets the author word what is wrong with the arguments", async () => {
    const info = Tool.define("strict", {
      parameters: z.object({ id: z.number() }),
      formatValidationError: ({ issues }) => `bad: ${issues.map((issue) => issue.path).join()}`,
      execute: async () => "",
    });
    expect((await run(info, { id: "x" })).content).toBe("bad: id");
    await expect(info.execute({ input: { id: "x" } } as never)).rejects.toThrow("bad: id");
  });

  it("refuses parameters that no object can meet", () => {
    for (const parameters of [z.string(), z.array(z.string()), z3.number()] as const) {
      const define = () => Tool.define({ name: "t", parameters, execute: async () => "" });
      expect(define).toThrow(/arguments are always an object. Write z\.object/);
    }
  });

  it("a direct call of execute validates, converts and wraps errors too", async () => {
    const info = Tool.define({
      name: "half",
      parameters: z.object({ n: z.number() }),
      execute: async ({ input }) => {
        if (input.n % 2) throw new TypeError("odd");
        return { half: input.n / 2 };
      },
    });
    expect(await info.execute({ input: { n: 4 } } as never)).toMatchObject({
      content: '{"half":2}',
      type: "json",
    });
    await expect(info.execute({ input: {} } as never)).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(info.execute({ input: { n: 3 } } as never)).rejects.toMatchObject({
      code: "execution_failed",
      message: "odd",
    });
  });

  it("a direct call of execute gives a context that can be spread", async () => {
    const parameters = z.object({ n: z.number().default(2) });
    const info = Tool.define({ name: "copy", parameters, execute: (ctx) => ({ ...ctx, signal: undefined }) });
    expect(await info.execute({ input: {}, sessionID: "s" } as never)).toMatchObject({
      structured: { input: { n: 2 }, sessionID: "s" },
    });
  });

  it("a direct call of a strict tool's execute refuses unknown arguments", async () => {
    const parameters = z.object({ n: z.number() });
    const execute = async () => "ran";
    const strict = Tool.define({ name: "strict", parameters, metadata: { strict: true }, execute });
    await expect(strict.execute({ input: { n: 1, m: 2 } } as never)).rejects.toMatchObject({
      code: "invalid_arguments",
      data: { issues: [{ path: "m" }] },
    });
    const open = Tool.define({ name: "open", parameters, execute });
    expect(await open.execute({ input: { n: 1, m: 2 } } as never)).toMatchObject({ content: "ran" });
  });

  it("names the field that is wrong", () => {
    expect(() => Tool.define(undefined as never)).toThrow(/name, parameters and execute/);
    expect(() => Tool.define({ name: "", parameters: z.object({}), execute: async () => "" })).toThrow(
      /name/,
    );
    expect(() => Tool.define("x", undefined as never)).toThrow(/parameters and execute/);
    expect(() => Tool.define("x", { parameters: z.object({}) } as never)).toThrow(/execute/);
    expect(() => Tool.define({ name: "a", parameters: 5 as never, execute: async () => "" })).toThrow(
      /parameters/,
    );
    expect(() =>
      Tool.define({
        name: "a",
        parameters: z.object({}),
        outputSchema: { type: "nope" },
        execute: async () => "",
      }),
    ).toThrow(/outputSchema/);
  });
});

describe("convenience tools", () => {
  it("createTextTool answers with its text, or with what is made of it", async () => {
    expect((await run(Tool.createTextTool("echo", "Echoes."), { text: "hi" })).content).toBe("hi");
    const upper = Tool.createTextTool("upper", "Shouts.", (text) => text.toUpperCase());
    expect((await run(upper, { text: "hi" })).content).toBe("HI");
    expect((await run(upper, {})).error?.code).toBe("invalid_arguments");
  });

  it("createSearchTool hands over query and limit and cuts the list", async () => {
    const pages = ["apple pie", "apple tart", "pear"];
    const search = Tool.createSearchTool("pages", "Searches pages.", async (query) =>
      pages.filter((page) => page.includes(query)),
    );
    expect((await run(search, { query: "apple", limit: 1 })).structured).toEqual({
      results: ["apple pie"],
      total: 2,
    });
    expect((await run(search, { query: "" })).error?.code).toBe("invalid_arguments");
    const text = Tool.createSearchTool("text", "Searches.", (query, { limit }) => `${query} ${limit}`);
    expect((await run(text, { query: "x" })).content).toBe("x 10");
  });
});

describe("keys that a tool does not have", () => {
  const parameters = { type: "object" };
  const execute = async () => "ran";

  it.each([
    [{ dangerous: true }, "dangerous", /beside its name.*metadata: \{ dangerous: … \}/],
    [{ permissions: ["a"] }, "permissions", /metadata: \{ permissions: … \}/],
    [{ desciption: "x" }, "desciption", /Write "description"/],
    [{ handler: execute }, "handler", /Write "execute"/],
    [{ wonder: 1 }, "wonder", /Remove it, or write it into metadata/],
    [{ metadata: { dangerous: "yes" } }, "metadata", /neither true nor false. Write dangerous: true/],
  ])("%j is refused, and the right place is named", (extra, field, message) => {
    const config = { name: "t", parameters, execute, ...extra };
    // Files in JavaScript write what the types forbid.
    expect(() => Reflect.apply(Tool.define, Tool, [config])).toThrow(
      expect.objectContaining({ field, message: expect.stringMatching(message) }),
    );
  });

  it("a description that is no text is refused", () => {
    const config = { name: "t", parameters, execute, ...JSON.parse('{"description":5}') };
    expect(() => Tool.define(config)).toThrow(expect.objectContaining({ field: "description" }));
  });

  it("the older form refuses what would guard the tool, and leaves other keys alone", () => {
    const guarded = { description: "", parameters, execute, dangerous: true };
    const odd = { description: "", parameters, execute, wonder: 1 };
    expect(() => Tool.define("t", guarded)).toThrow(/metadata: \{ dangerous: … \}/);
    expect(Tool.define("t", odd).name).toBe("t");
  });

  it("a finished tool can be defined anew, and a key without a value counts as absent", () => {
    const first = Tool.define({ name: "t", parameters, execute });
    const again = { ...first, name: "u", execute, dangerous: undefined };
    expect(Tool.define(again).name).toBe("u");
  });
});
