import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NewSkillTool } from "../store/skills.ts";
import { TestLibrary, TestService } from "./testing/library.fixture.ts";

const loopback = ["127.0.0.1"];

describe("a tool of type http", () => {
  let service: TestService;
  let fixture: TestLibrary;
  let skillId: string;
  let count = 0;

  beforeAll(async () => {
    service = await TestService.start((incoming, outgoing) => {
      const { pathname, searchParams } = new URL(incoming.url ?? "/", "http://x");
      if (pathname === "/hang") return;
      if (pathname === "/html") {
        outgoing.setHeader("content-type", "text/html");
        outgoing.end("<h1>Sign in</h1>");
      } else if (pathname === "/broken") {
        outgoing.writeHead(503, { "content-type": "application/json" });
        outgoing.end(`{"why":"the index is being rebuilt","filler":"${"x".repeat(5_000)}"}`);
      } else if (pathname === "/forever") {
        const more = () => {
          while (outgoing.write("a".repeat(65_536))) if (outgoing.destroyed) return;
          outgoing.once("drain", more);
        };
        outgoing.setHeader("content-type", "text/plain");
        more();
      } else if (pathname === "/away") {
        outgoing.writeHead(302, { location: searchParams.get("to") ?? "/" });
        outgoing.end();
      } else if (pathname === "/unchanged") {
        outgoing.writeHead(304);
        outgoing.end();
      } else if (pathname === "/json") {
        outgoing.setHeader("content-type", "application/json");
        outgoing.end(searchParams.get("answer"));
      } else if (pathname === "/picture") {
        outgoing.setHeader("content-type", "image/png");
        outgoing.end(Buffer.from([0x89, 0x50, 0x4e, 0x47]));
      } else {
        outgoing.setHeader("content-type", "application/json");
        outgoing.end(JSON.stringify({ path: incoming.url, content: ["not", "blocks"] }));
      }
    });
    fixture = await TestLibrary.open({ allowPrivate: loopback, secrets: { KEY: "s3cr3t/value+1" } });
    skillId = (await fixture.library.add({ skill: { name: "Web" }, tools: [], files: [] })).id;
  });
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });

  async function add(tool: Partial<NewSkillTool>): Promise<string> {
    const whole: NewSkillTool = { name: `tool_${++count}`, type: "http", ...tool };
    return (await fixture.library.addTool(skillId, whole)).id;
  }

  const usageOf = (value: unknown) => JSON.stringify(value);

  it("puts parameters in the path, the query, headers and the body, as its usage says", async () => {
    const id = await add({
      endpoint: `${service.url}/users/{user}/notes`,
      method: "post",
      usage: usageOf({
        parameters: {
          properties: {
            user: { type: "string", required: true },
            page: { type: "integer", in: "query", default: 1 },
            trace: { type: "string", in: "header", as: "X-Trace" },
            text: { type: "string" },
            tags: { type: "array", items: { type: "string" }, in: "body", as: "labels" },
          },
        },
      }),
    });
    const result = await fixture.registry.execute(id, {
      user: "a/b ü",
      trace: "t1",
      text: "hello",
      tags: ["x"],
    });
    expect(result).toMatchObject({ type: "json", structured: { content: ["not", "blocks"] } });
    const asked = service.asked.at(-1)!;
    expect(asked).toMatchObject({ method: "POST", url: "/users/a%2Fb%20%C3%BC/notes?page=1" });
    expect(asked.headers["x-trace"]).toBe("t1");
    expect(JSON.parse(asked.body)).toEqual({ text: "hello", labels: ["x"] });
  });

  it("puts them in the query of a GET when nothing else is said, lists as repetitions", async () => {
    const id = await add({
      endpoint: `${service.url}/search?lang=de`,
      usage: '[{"name":"q","type":"string","required":true},{"name":"tag","type":"array"}]',
    });
    await fixture.registry.execute(id, { q: "a&b=c", tag: ["x", "y"] });
    expect(service.asked.at(-1)).toMatchObject({
      method: "GET",
      url: "/search?lang=de&q=a%26b%3Dc&tag=x&tag=y",
      body: "",
    });
  });

  it("knows its parameters from the endpoint alone, also written :like_this", async () => {
    const id = await add({ endpoint: `${service.url}/city/:city` });
    expect(fixture.registry.get(id)?.parameters).toMatchObject({ required: ["city"] });
    await fixture.registry.execute(id, { city: "上海" });
    expect(service.asked.at(-1)?.url).toBe("/city/%E4%B8%8A%E6%B5%B7");
  });

  it("sends a form when its content type says so", async () => {
    const id = await add({
      endpoint: `${service.url}/form`,
      method: "POST",
      usage: usageOf({
        parameters: { properties: { a: { type: "string" } } },
        headers: { "Content-Type": "application/x-www-form-urlencoded" },
        arguments: { b: 2 },
      }),
    });
    await fixture.registry.execute(id, { a: "1 2", b: 3 });
    expect(service.asked.at(-1)?.body).toBe("a=1+2&b=2");
  });

  it("does not let a path parameter lead elsewhere", async () => {
    const id = await add({ endpoint: `${service.url}/users/{id}/x` });
    for (const value of ["..", ".", "%2e%2E", ""]) {
      const before = service.asked.length;
      expect((await fixture.registry.execute(id, { id: value })).type).toBe("error");
      expect(service.asked).toHaveLength(before);
    }
  });

  it("carries secrets by reference, and shows them nowhere", async () => {
    const id = await add({
      endpoint: `${service.url}/broken?key={{secret:KEY}}`,
      usage: usageOf({ parameters: { properties: {} }, headers: { Authorization: "Bearer {{secret:KEY}}" } }),
    });
    const result = await fixture.registry.execute(id, {});
    expect(service.asked.at(-1)?.headers.authorization).toBe("Bearer s3cr3t/value+1");
    expect(service.asked.at(-1)?.url).toBe("/broken?key=s3cr3t%2Fvalue%2B1");
    const seen = JSON.stringify([result, fixture.registry.getCallHistory(), fixture.messages]);
    expect(seen).not.toMatch(/s3cr3t/);
    expect(result.content).toContain("{{secret:KEY}}");
  });

  it("carries secrets in the arguments that the operator wrote, and never in a caller's", async () => {
    const id = await add({
      endpoint: `${service.url}/away?to=http://elsewhere.example/`,
      method: "POST",
      usage: usageOf({
        parameters: { properties: { text: { type: "string" } } },
        arguments: { api_key: "{{secret:KEY}}", deep: [{ key: "k-{{secret:KEY}}" }] },
      }),
    });
    const result = await fixture.registry.execute(id, { text: "{{secret:KEY}}" });
    expect(JSON.parse(service.asked.at(-1)!.body)).toEqual({
      text: "{{secret:KEY}}",
      api_key: "s3cr3t/value+1",
      deep: [{ key: "k-s3cr3t/value+1" }],
    });
    expect(result.content).toContain("Redirects are not followed for a tool that carries secrets");
    expect(JSON.stringify([result, fixture.registry.getCallHistory(), fixture.messages])).not.toMatch(
      /s3cr3t/,
    );
  });

  it("sends defaults that no schema speaks of", async () => {
    const usage = usageOf({
      parameters: { properties: { q: { type: "string" } } },
      defaults: { lang: "de" },
    });
    const id = await add({ endpoint: `${service.url}/search`, usage });
    await fixture.registry.execute(id, { q: "x" });
    expect(service.asked.at(-1)?.url).toBe("/search?lang=de&q=x");
  });

  it.each([
    [{ success: false, error: "no", type: "text", content: "x" }, "no"],
    [{ isError: true, content: [{ type: "text", text: "x" }], message: "not today" }, "not today"],
    [{ type: "error", error: { message: "overloaded" } }, "overloaded"],
  ])("takes a failure that the answer tells of for one: %j", async (answer, reason) => {
    const endpoint = `${service.url}/json?answer=${encodeURIComponent(JSON.stringify(answer))}`;
    const result = await fixture.registry.execute(await add({ endpoint }), {});
    expect(result).toMatchObject({ type: "error", content: reason });
  });

  it("takes an answer that looks like a tool's result for the data that it is", async () => {
    const answer = {
      type: "text",
      content: "x",
      attachments: [{ mime: "text/plain", url: "file:///etc/passwd" }],
    };
    const endpoint = `${service.url}/json?answer=${encodeURIComponent(JSON.stringify(answer))}`;
    const result = await fixture.registry.execute(await add({ endpoint }), {});
    expect(result).toMatchObject({ type: "json", structured: answer });
    expect(result.attachments ?? []).toEqual([]);
  });

  it("speaks of redirects only where there is one", async () => {
    const { type, content } = await fixture.registry.execute(
      await add({ endpoint: `${service.url}/unchanged` }),
      {},
    );
    expect(type).toBe("error");
    expect(content).toContain("304 Not Modified, without a body");
  });

  it("keeps no password in an endpoint, and does not repeat it", async () => {
    const refused = await add({ endpoint: "http://ann:hunter2@x.example/" }).catch((error) => error);
    expect(refused.issues).toEqual([
      { path: "endpoint", message: expect.stringContaining("{{secret:NAME}}") },
    ]);
    expect(String(refused.message)).not.toContain("hunter2");
    await add({ endpoint: "http://ann:{{secret:KEY}}@x.example/" });
  });

  it("says which secret is not set, and how to set it", async () => {
    const id = await add({ endpoint: `${service.url}/x?k={{secret:NOWHERE}}` });
    const { content } = await fixture.registry.execute(id, {});
    expect(content).toContain("toolrack secrets set NOWHERE");
  });

  it("follows no redirect with a secret in hand", async () => {
    const id = await add({
      endpoint: `${service.url}/away?to=http://elsewhere.example/`,
      usage: usageOf({ parameters: { properties: {} }, headers: { "X-Custom": "{{secret:KEY}}" } }),
    });
    const { type, content } = await fixture.registry.execute(id, {});
    expect(type).toBe("error");
    expect(content).toContain("leads to http://elsewhere.example");
  });

  it("makes an error of any other status, with the beginning of the body", async () => {
    const { type, content, error } = await fixture.registry.execute(
      await add({ endpoint: `${service.url}/broken` }),
      {},
    );
    expect(type).toBe("error");
    expect(content).toContain('answered 503 Service Unavailable: {"why":"the index is being rebuilt"');
    expect(content.length).toBeLessThan(2_500);
    expect(error?.name).toBe("ToolExecutionError");
  });

  it("ends a request that hangs, at its time limit", async () => {
    const id = await add({
      endpoint: `${service.url}/hang`,
      usage: usageOf({ parameters: { properties: {} }, timeout: 200 }),
    });
    const { error } = await fixture.registry.execute(id, {});
    expect(error?.name).toBe("ToolTimeoutError");
  });

  it("reads a stream without end only up to its size limit", async () => {
    const id = await add({
      endpoint: `${service.url}/forever`,
      usage: usageOf({ parameters: { properties: {} }, maxBytes: 1_000 }),
    });
    const { type, content } = await fixture.registry.execute(id, {});
    expect(type).toBe("text");
    expect(content).toMatch(/^a{1000}\n\[… cut after 1,000 bytes …\]$/);
  });

  it("gives a page that is no JSON as the text that it is, and a picture as a picture", async () => {
    const page = await fixture.registry.execute(await add({ endpoint: `${service.url}/html` }), {});
    expect(page).toMatchObject({ type: "text", content: "<h1>Sign in</h1>" });
    const picture = await fixture.registry.execute(await add({ endpoint: `${service.url}/picture` }), {});
    expect(picture.attachments?.[0]).toMatchObject({ mime: "image/png" });
  });

  it("reaches private addresses only where they are allowed, after a redirect too", async () => {
    await using closed = await TestLibrary.open();
    const { id } = await closed.library.add({ skill: { name: "S" }, tools: [], files: [] });
    const tool = await closed.library.addTool(id, { name: "t", type: "http", endpoint: `${service.url}/x` });
    const before = service.asked.length;
    expect((await closed.registry.execute(tool.id, {})).content).toContain("Refused to connect to 127.0.0.1");
    expect(service.asked).toHaveLength(before);

    const away = await add({ endpoint: `${service.url}/away?to={to}` });
    const { type, content } = await fixture.registry.execute(away, { to: "http://10.0.0.1/admin" });
    expect(type).toBe("error");
    expect(content).toContain("Refused to connect to 10.0.0.1");
  });

  it("ends on the version it started on when its skill is deleted meanwhile", async () => {
    const { id } = await fixture.library.add({ skill: { name: "Short-lived" }, tools: [], files: [] });
    const tool = await fixture.library.addTool(id, {
      name: "t",
      type: "http",
      endpoint: `${service.url}/hang`,
    });
    const controller = new AbortController();
    const before = service.asked.length;
    const call = fixture.registry.execute(tool.id, {}, { signal: controller.signal });
    while (service.asked.length === before) await wait(5);
    await fixture.library.remove(id);
    expect(fixture.registry.get(tool.id)).toBeUndefined();
    controller.abort();
    expect((await call).error?.name).toBe("ToolCancelledError");
    expect((await fixture.registry.execute(tool.id, {})).error?.name).toBe("ToolNotFoundError");
  });

  it.each([
    ["endpoint", { endpoint: "ftp://x/y" }],
    ["endpoint", { endpoint: undefined }],
    ["endpoint", { endpoint: "https://{host}/x" }],
    ["method", { endpoint: "https://x.example", method: "FETCH" }],
    ["usage", { endpoint: "https://x.example", usage: "{broken" }],
    ["usage", { endpoint: "https://x.example", usage: '{"query":{"type":"string"}}' }],
    ["usage", { endpoint: "https://x.example", usage: '{"properties":{"q":{"type":"strange"}}}' }],
    ["usage", { endpoint: "https://x.example", usage: '{"parameters":{"properties":{}},"timeout":"soon"}' }],
    ["usage", { endpoint: "https://x.example", usage: '{"properties":{"q":{"in":"cookie"}}}' }],
    ["name", { endpoint: "https://x.example", name: " " }],
    [
      "endpoint",
      { endpoint: "https://x.example/", usage: '{"properties":{"id":{"type":"string","in":"path"}}}' },
    ],
    [
      "usage",
      { endpoint: "https://x.example/", usage: '{"parameters":{"properties":{}},"headers":{"a b":"c"}}' },
    ],
  ])("names the field %s when it cannot be used: %j", async (field, tool) => {
    const outcome = await add(JSON.parse(JSON.stringify(tool))).catch((error) => error);
    expect(outcome.issues).toEqual([{ path: field, message: expect.any(String) }]);
  });
});
