import { Tool } from "@toolrack/core";
import { createClient, ToolCallError } from "@toolrack/core/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestServer } from "../server.fixture.ts";

const tool = (name: string, run: (n: number) => unknown) =>
  Tool.define({
    name,
    description: `Does ${name}.`,
    parameters: { type: "object", properties: { n: { type: "number" } } },
    execute: async ({ input }) => run(Number(input.n)),
  });

const big = JSON.stringify(Array.from({ length: 40_000 }, (_, at) => ({ at, text: `row ${at}` })));
let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({
    tools: [
      tool("double", (n) => ({ value: n * 2 })),
      tool("rows", () => '[{"a":1}]'),
      tool("words", (n) => `{n} is ${n}`),
      tool("many", () => big),
      tool("broken", () => {
        throw new Error("the disk is gone");
      }),
      tool("secret", () => "never"),
    ],
  });
});
afterAll(() => server[Symbol.asyncDispose]());

interface Rack {
  double(args: { n: number }): Promise<{ value: number }>;
  rows(): Promise<{ a: number }[]>;
  words(args?: { n?: number }): Promise<string>;
  many(): Promise<{ at: number }[]>;
  broken(): Promise<ToolCallError>;
}

describe("a typed client", () => {
  it("resolves to structured values, to the value of JSON, and to text", async () => {
    const rack = createClient<Rack>({ url: `${server.server.url}/`, token: server.server.token });
    expect((await rack.tools.double({ n: 4 })).value).toBe(8);
    expect(await rack.call("double", { n: 5 })).toEqual({ value: 10 });
    expect(await rack.tools.rows()).toEqual([{ a: 1 }]);
    expect(await rack.tools.words({ n: 7 })).toBe("{n} is 7");
  });

  it("reads a long result whole", async () => {
    const rack = createClient<Rack>({ url: server.server.url, token: server.server.token });
    expect((await rack.tools.many()).at(-1)).toEqual({ at: 39_999, text: "row 39999" });
  });

  it("rejects with the code of what failed, and the call that has its record", async () => {
    const rack = createClient<Rack>({ url: server.server.url, token: server.server.token });
    const failed = await rack.tools.broken().catch((thrown: ToolCallError) => thrown);
    expect(failed).toBeInstanceOf(ToolCallError);
    expect(failed).toMatchObject({ code: "execution_failed", toolName: "broken" });
    expect(failed.message).toContain("the disk is gone");
    expect((await server.ask(`/api/calls/${failed.callId}`)).body).toMatchObject({ toolName: "broken" });
    // @ts-expect-error: a text is no number, as the server tells too.
    const refused = rack.tools.double({ n: "four" });
    await expect(refused).rejects.toMatchObject({ code: "invalid_arguments", recoverable: true });
  });

  it("says where it asked when nobody answers, or somebody else", async () => {
    const away = createClient({ url: "http://127.0.0.1:9" });
    await expect(away.call("anything")).rejects.toMatchObject({
      code: "unreachable",
      recoverable: true,
      message: expect.stringContaining("http://127.0.0.1:9 cannot be reached"),
    });
    const page = async () => new Response("<html>", { headers: { "content-type": "text/html" } });
    const other = createClient({ url: "http://127.0.0.1:9", fetch: page });
    await expect(other.call("anything")).rejects.toMatchObject({ code: "unreadable_answer" });
    const none = createClient<Rack>({ url: server.server.url, token: "wrong" });
    await expect(none.tools.rows()).rejects.toMatchObject({ code: "unauthorized" });
  });

  it("is not taken for a promise", async () => {
    const { tools } = createClient({ url: server.server.url });
    expect(await tools).toBe(tools);
  });
});

describe("GET /api/types", () => {
  it("declares the tools that the token may see", async () => {
    const all = await server.fetch("/api/types");
    expect(all.headers.get("content-type")).toContain("text/plain");
    expect(await all.text()).toMatch(/^export interface Rack \{.*double\(args\?: \{.*secret\(/s);
    const token = await server.issue({ tools: ["double"] });
    const text = await (await server.fetch("/api/types", { token })).text();
    expect(text).toContain("double(");
    expect(text).not.toContain("secret");
  });
});
