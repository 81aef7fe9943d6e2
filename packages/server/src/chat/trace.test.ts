import { type Context, propagation, type Span, type SpanContext, trace } from "@opentelemetry/api";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { masterGrant } from "../access/grants.ts";
import { openChat } from "../rack/open-chat.ts";
import { openRack } from "../rack/rack.ts";
import { ChatRack, called } from "./testing/chat-rack.fixture.ts";

const spans: { name: string; parent: SpanContext | undefined }[] = [];

/** As much of an OpenTelemetry SDK as shows which trace a span belongs to. */
beforeAll(() => {
  const itself = () => span;
  const span = {
    isRecording: () => true,
    spanContext: () => ({ traceId: "f".repeat(32), spanId: "f".repeat(16), traceFlags: 1 }),
    setAttribute: itself,
    setAttributes: itself,
    updateName: itself,
    setStatus: itself,
    end() {},
  };
  const startSpan = (name: string, _options: unknown, parent: Context) => {
    spans.push({ name, parent: trace.getSpanContext(parent) });
    return span as unknown as Span; // The methods that are used here.
  };
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) as never });
  propagation.setGlobalPropagator({
    inject() {},
    extract(from, carrier) {
      const [, traceId, spanId] = String((carrier as Record<string, string>).traceparent ?? "").split("-");
      if (traceId === undefined || spanId === undefined) return from;
      return trace.setSpanContext(from, { traceId, spanId, traceFlags: 1 });
    },
    fields: () => ["traceparent"],
  });
});
afterAll(() => {
  trace.disable();
  propagation.disable();
});

const traceId = "0af7651916cd43dd8448eb211c80319c";
const carried = {
  traceparent: `00-${traceId}-b7ad6b7169203331-01`,
  tracestate: "vendor=one",
  baggage: "team=blue",
};

function expectCarried(rack: ChatRack): void {
  const sent = rack.mock.getRequests().map(({ headers }) => headers);
  expect(sent).toHaveLength(2);
  for (const headers of sent) {
    expect(headers).toMatchObject(carried);
    expect(headers).not.toHaveProperty("x-own");
  }
  const parents = spans.splice(0).filter(({ name }) => name === "execute_tool add");
  expect(parents.map(({ parent }) => parent?.traceId)).toEqual([traceId]);
}

describe("the trace of a request", { timeout: 30_000 }, () => {
  it("goes on in the calls of a completion and in the requests to the provider", async () => {
    await using rack = await ChatRack.start();
    rack.script((_request, asked) => (asked === 0 ? called(["add", { a: 1, b: 2 }]) : { content: "3" }));
    const body = { model: "model-a", messages: [{ role: "user", content: "1 + 2?" }] };
    const headers = { ...carried, "x-own": "kept here", cookie: "kept=here" };
    await rack.ask("/v1/chat/completions", { body, headers });
    expectCarried(rack);
  });

  it("goes on in a conversation that the server keeps", async () => {
    await using rack = await ChatRack.start();
    rack.script((_request, asked) => (asked === 0 ? called(["add", { a: 1, b: 2 }]) : { content: "3" }));
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    await using opened = new AsyncDisposableStack();
    const parts = await openRack(rack.workspace.directory, { logger, watch: false }, opened);
    for (const tool of rack.serving.app.registry.list()) {
      if (tool.name === "add") parts.app.registry.register(tool);
    }
    const chat = await openChat({ ...parts, logger });
    opened.defer(() => chat.close());
    const session = await chat.sessions.create({ grant: masterGrant });
    const turn = await chat.handleStream(session, {
      content: "1 + 2?",
      headers: { ...carried, "x-own": "kept here" },
    });
    expect(await turn.done).toMatchObject({ status: "completed" });
    expectCarried(rack);
  });
});
