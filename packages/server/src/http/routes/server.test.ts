import { compileSchema } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StreamReader, sampleTools, TestServer } from "../server.fixture.ts";

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
  }[];
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
}

let server: TestServer;

const good = `export const schema = { name: "hello", description: "Greets.", type: "object", properties: {} };
export default async () => ({ content: [{ type: "text", text: "hello" }] });`;

beforeAll(async () => {
  server = await TestServer.start({ tools: sampleTools().tools, files: { "tools/hello.ts": good } });
});
afterAll(() => server[Symbol.asyncDispose]());

describe("health", () => {
  it("is told to anybody", async () => {
    expect((await server.ask("/healthz", { token: null })).body).toEqual({ status: "ok" });
    expect((await server.ask("/readyz", { token: null })).body).toEqual({ status: "ready" });
  });

  it("is not ready while the store does not answer", async () => {
    await using broken = await TestServer.start({
      wrapStore: (store) => ({
        ...store,
        calls: Object.create(store.calls, { list: { value: () => Promise.reject(new Error("gone")) } }),
      }),
    });
    const { status, body } = await broken.ask("/readyz", { token: null });
    expect([status, body.error.code]).toEqual([503, "not_ready"]);
  });
});

describe("GET /metrics", () => {
  it("counts calls, failures, durations and requests", async () => {
    await server.call("add", { a: 1 });
    await server.call("fail");
    await server.call(`made_up_${Date.now()}`);
    const text = await (await server.fetch("/metrics")).text();
    expect(text).toMatch(/^toolrack_calls_total\{tool="add",status="completed"\} 1$/m);
    expect(text).toMatch(/^toolrack_call_failures_total\{tool="fail",code="execution_failed"\} 1$/m);
    expect(text).toMatch(/^toolrack_call_duration_seconds_bucket\{tool="add",le="\+Inf"\} 1$/m);
    expect(text).toMatch(/^toolrack_call_duration_seconds_count\{tool="add"\} 1$/m);
    expect(text).toMatch(
      /^toolrack_http_requests_total\{method="POST",route="\/api\/tools\/\{name\}\/calls",status="200"\} 2$/m,
    );
    expect(text).toMatch(/^toolrack_tools\{state="enabled"\} \d+$/m);
    expect(text).toMatch(/^toolrack_calls_active 0$/m);
    expect(text).toMatch(/^toolrack_event_loop_lag_seconds\{quantile="0.99"\} [\d.e-]+$/m);
    expect(text).toContain('tool="(unknown)"');
    expect(text).not.toContain("made_up_");
  });

  it("is well-formed: every line is a comment or a sample, every metric is declared once", async () => {
    const text = await (await server.fetch("/metrics")).text();
    const lines = text.trimEnd().split("\n");
    for (const line of lines)
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?[\d.]+(e[+-]?\d+)?)$/);
    const declared = lines.filter((line) => line.startsWith("# TYPE"));
    expect(new Set(declared).size).toBe(declared.length);
  });

  it("speaks to a token of its own tools only", async () => {
    const token = await server.issue({ tools: ["add"] });
    const text = await (await server.fetch("/metrics", { token })).text();
    expect(text).toContain('tool="add"');
    expect(text).not.toContain('tool="fail"');
  });
});

describe("GET /openapi.json", () => {
  it("describes every route with schemas that compile and references that lead somewhere", async () => {
    const { body } = await server.ask("/openapi.json");
    expect(body.openapi).toBe("3.1.0");
    const paths: Record<string, Record<string, Operation>> = body.paths;
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
    );
    expect(operations.map(({ method, path }) => `${method.toUpperCase()} ${path}`).sort()).toEqual([
      "DELETE /api/approval-rules/{id}",
      "DELETE /api/calls/{callId}",
      "DELETE /api/chat/sessions/{id}",
      "DELETE /api/data/{name}",
      "DELETE /api/experts/{id}",
      "DELETE /api/mcp-servers/{key}",
      "DELETE /api/schedules/{id}",
      "DELETE /api/searches",
      "DELETE /api/searches/{id}",
      "DELETE /api/secrets/{name}",
      "DELETE /api/settings/{name}",
      "DELETE /api/skills/{id}",
      "DELETE /api/skills/{id}/tools/{toolId}",
      "DELETE /api/tokens/{id}",
      "DELETE /v1/responses/{id}",
      "GET /api/approval-rules",
      "GET /api/approvals",
      "GET /api/approvals/{id}",
      "GET /api/calls",
      "GET /api/calls/{callId}",
      "GET /api/calls/{callId}/record",
      "GET /api/calls/{callId}/result",
      "GET /api/chat",
      "GET /api/chat/sessions",
      "GET /api/chat/sessions/{id}",
      "GET /api/chat/sessions/{id}/events",
      "GET /api/chat/tools",
      "GET /api/clients",
      "GET /api/data",
      "GET /api/events",
      "GET /api/experts",
      "GET /api/experts/{id}",
      "GET /api/files",
      "GET /api/lint",
      "GET /api/loops",
      "GET /api/mcp-servers",
      "GET /api/mcp-servers/{key}",
      "GET /api/mcp-servers/{key}/log",
      "GET /api/mcp-servers/{key}/tools",
      "GET /api/nodes",
      "GET /api/overview",
      "GET /api/prompts",
      "GET /api/reloads",
      "GET /api/resources",
      "GET /api/resources/content",
      "GET /api/schedule-times",
      "GET /api/schedules",
      "GET /api/searches",
      "GET /api/secrets",
      "GET /api/server",
      "GET /api/settings",
      "GET /api/skills",
      "GET /api/skills/{id}",
      "GET /api/skills/{id}/export",
      "GET /api/skills/{id}/tools",
      "GET /api/skills/{id}/tools/{toolId}",
      "GET /api/stats",
      "GET /api/tests",
      "GET /api/tokens",
      "GET /api/tools",
      "GET /api/tools/{name}",
      "GET /api/types",
      "GET /healthz",
      "GET /identity/{nonce}",
      "GET /metrics",
      "GET /openai/tools",
      "GET /openapi.json",
      "GET /readyz",
      "GET /schemas/calls.json",
      "GET /v1/models",
      "GET /v1/models/{id}",
      "GET /v1/models/{provider}/{name}",
      "GET /v1/models/{provider}/{owner}/{name}",
      "GET /v1/responses/{id}",
      "GET /v1/responses/{id}/input_items",
      "PATCH /api/chat/sessions/{id}",
      "PATCH /api/experts/{id}",
      "PATCH /api/mcp-servers/{key}",
      "PATCH /api/schedules/{id}",
      "PATCH /api/searches",
      "PATCH /api/skills/{id}",
      "PATCH /api/skills/{id}/tools/{toolId}",
      "PATCH /api/tools",
      "PATCH /api/tools/{name}",
      "POST /api/approval-rules",
      "POST /api/approvals/{id}",
      "POST /api/calls/{callId}/replay",
      "POST /api/calls/{callId}/test",
      "POST /api/calls/{callId}/tool",
      "POST /api/chat/sessions",
      "POST /api/chat/sessions/{id}/messages",
      "POST /api/chat/sessions/{id}/stop",
      "POST /api/code",
      "POST /api/experts",
      "POST /api/loops/{sessionID}/resume",
      "POST /api/mcp-servers",
      "POST /api/mcp-servers/{key}/approve",
      "POST /api/mcp-servers/{key}/login",
      "POST /api/mcp-servers/{key}/logout",
      "POST /api/mcp-servers/{key}/restart",
      "POST /api/mcp-servers/{key}/tools/{name}/approve",
      "POST /api/nodes/{id}/drain",
      "POST /api/prompts/{name}",
      "POST /api/reload",
      "POST /api/schedules",
      "POST /api/skills",
      "POST /api/skills/import",
      "POST /api/skills/{id}/tools",
      "POST /api/skills/{id}/try",
      "POST /api/tests/run",
      "POST /api/tokens",
      "POST /api/tools/{name}/calls",
      "POST /openai/tool-calls",
      "POST /v1/chat/completions",
      "POST /v1/embeddings",
      "POST /v1/responses",
      "POST /v1/responses/{id}/cancel",
      "PUT /api/secrets/{name}",
      "PUT /api/settings/{name}",
    ]);
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { path, operation } of operations) {
      const { parameters = [], responses } = operation;
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect(parameters.filter((parameter) => parameter.in === "path").map(({ name }) => name)).toEqual(
        inPath,
      );
      expect(parameters.every((parameter) => parameter.in !== "path" || parameter.required)).toBe(true);
      expect(Object.keys(responses)).toContain("200");
      for (const response of Object.values(responses)) expect(response.description).toMatch(/\S/);
    }
    for (const reference of JSON.stringify(body).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)) {
      expect(Object.keys(body.components.schemas)).toContain(reference[1]);
    }
    for (const schema of Object.values(body.components.schemas)) {
      const outcome = await compileSchema({ ...(schema as object), components: body.components }).validate(
        {},
      );
      expect(outcome).toHaveProperty("ok");
    }
  });
});

describe("files", () => {
  it("are listed with what became of each, and loaded anew on request", async () => {
    expect((await server.ask("/api/files")).body.files).toMatchObject([
      { file: "tools/hello.ts", status: "loaded", tools: ["hello"] },
    ]);
    const events = new StreamReader(await server.fetch("/api/events"));
    await events.until("ready");

    await server.workspace.write("tools/second.ts", good.replaceAll("hello", "second"));
    const { body } = await server.ask("/api/reload", { method: "POST" });
    expect(body.added).toEqual(["second"]);
    await events.until("reload.started");
    expect((await events.until("reload.finished")).data).toMatchObject({ added: ["second"], failed: [] });
    await events.cancel();
    expect((await server.call("second")).body.result.content).toBe("second");

    await server.workspace.write("tools/hello.ts", "export const schema = {;");
    const broken = await server.ask("/api/reload", { method: "POST" });
    expect(broken.body.files.find(({ file }: { file: string }) => file === "tools/hello.ts").status).toBe(
      "stale",
    );
    const { files, total } = (await server.ask("/api/files?problems=true")).body;
    expect(total).toBe(2);
    expect(files).toHaveLength(1);
    const { file, failure } = files[0];
    expect(file).toBe("tools/hello.ts");
    expect(failure).toMatchObject({
      line: 1,
      frame: expect.stringMatching(/^> 1 \| export const schema = \{;\n {4}\| {24}\^$/),
    });
    expect((await server.ask("/api/tools/hello")).body.status).toBe("stale");
    expect((await server.ask("/api/tools?status=stale")).body.items).toMatchObject([{ name: "hello" }]);
    expect((await server.call("hello")).body.result.content).toBe("hello");
  });
});
