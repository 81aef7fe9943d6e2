import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type Context,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  trace,
} from "@opentelemetry/api";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sampleTools, TestServer } from "../server.fixture.ts";

/** As much of an OpenTelemetry SDK as shows what spans would be exported. */
interface Kept {
  name: string;
  attributes: Attributes;
  status?: { code: number };
  ended: boolean;
  readonly context: SpanContext;
  readonly parent: SpanContext | undefined;
}
const kept: Kept[] = [];
let counter = 0;

function startSpan(name: string, _options: unknown, parentContext: Context): Span {
  const parent = trace.getSpanContext(parentContext);
  const spanId = (++counter).toString(16).padStart(16, "0");
  const span: Kept = {
    name,
    attributes: {},
    ended: false,
    parent,
    context: { traceId: parent?.traceId ?? "f".repeat(32), spanId, traceFlags: 1 },
  };
  kept.push(span);
  const api = {
    isRecording: () => true,
    spanContext: () => span.context,
    setAttribute(key: string, value: never) {
      span.attributes[key] = value;
      return api;
    },
    setAttributes(more: Attributes) {
      Object.assign(span.attributes, more);
      return api;
    },
    updateName(next: string) {
      span.name = next;
      return api;
    },
    setStatus(status: { code: number }) {
      span.status = status;
      return api;
    },
    end() {
      span.ended = true;
    },
  };
  return api as unknown as Span; // The methods that are used here.
}

const storage = new AsyncLocalStorage<Context>();
let server: TestServer;

beforeAll(async () => {
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) as never });
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, run, self, ...args) => storage.run(active, () => run.call(self as never, ...args)),
    bind: (_, target) => target,
    enable: () => context as never,
    disable: () => context as never,
  });
  propagation.setGlobalPropagator({
    inject() {},
    extract(from, carrier) {
      const [, traceId, spanId] = String((carrier as Record<string, string>).traceparent ?? "").split("-");
      if (traceId === undefined || spanId === undefined) return from;
      return trace.setSpanContext(from, { traceId, spanId, traceFlags: 1 });
    },
    fields: () => [],
  });
  server = await TestServer.start({ tools: sampleTools().tools });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  trace.disable();
  context.disable();
  propagation.disable();
});

it("makes a span for every call, in the trace of the request, and one for each call that it makes", async () => {
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  const answer = await server.fetch("/api/tools/outer/calls", {
    method: "POST",
    headers: { traceparent },
    body: { arguments: { tool: "plus", input: { a: 1 } }, sessionID: "talk" },
  });
  const { callId } = (await answer.json()) as { callId: string };
  const [outer, inner] = kept.splice(0);
  expect(outer).toMatchObject({
    name: "execute_tool outer",
    ended: true,
    parent: { traceId: "a".repeat(32), spanId: "b".repeat(16) },
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "outer",
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": callId,
      "gen_ai.tool.description": "Calls another tool.",
      "gen_ai.conversation.id": "talk",
      "toolrack.caller": "http",
    },
  });
  expect(outer!.attributes).not.toHaveProperty("gen_ai.tool.call.arguments");
  expect(inner).toMatchObject({ name: "execute_tool add", ended: true, parent: outer!.context });
});

it("names the error", async () => {
  await server.call("fail");
  expect(kept.splice(0)).toMatchObject([
    {
      name: "execute_tool fail",
      ended: true,
      status: { code: 2 },
      attributes: { "error.type": "execution_failed" },
    },
  ]);
});
