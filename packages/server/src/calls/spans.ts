import {
  context,
  INVALID_TRACEID,
  ProxyTracerProvider,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TimeInput,
  trace,
} from "@opentelemetry/api";
import { IdTable, type RackEvent, type ToolCallRecord, type ToolInfo, type ToolResult } from "@toolrack/core";

/** The names of OpenTelemetry's conventions for generative AI. They may still change, so they stand here only. */
const names = {
  operation: "gen_ai.operation.name",
  tool: "gen_ai.tool.name",
  toolType: "gen_ai.tool.type",
  description: "gen_ai.tool.description",
  callId: "gen_ai.tool.call.id",
  arguments: "gen_ai.tool.call.arguments",
  result: "gen_ai.tool.call.result",
  conversation: "gen_ai.conversation.id",
  error: "error.type",
  caller: "toolrack.caller",
} as const;

const LONGEST_VALUE = 8_000;

/** What calls say is told to a tracing system only by those who ask for it. */
const capturesContent = process.env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT === "true";

/** A span for every call. Does nothing, and costs next to nothing, in a process without an OpenTelemetry SDK. */
export class CallSpans {
  readonly #tracer = trace.getTracer("toolrack");
  readonly #open = new IdTable<Span>();
  /** The call that `run` is making at this moment. */
  #begun: string | undefined;

  /** Makes a call inside a span of its own, which continues the trace that the request's headers name. */
  run<Answer>(
    call: { readonly callId: string; readonly toolName: string; readonly info: ToolInfo | undefined },
    headers: Readonly<Record<string, string | string[] | undefined>> | undefined,
    execute: () => Answer,
  ): Answer {
    if (headers === undefined && !isTracing()) return execute();
    const remote = propagation.extract(context.active(), headers ?? {});
    const span = this.#start(call.callId, call.toolName, remote, call.info);
    const before = this.#begun;
    this.#begun = call.callId;
    try {
      // Without an SDK there is nothing to carry on.
      if (span.spanContext().traceId === INVALID_TRACEID) return execute();
      return context.with(trace.setSpan(remote, span), execute);
    } finally {
      this.#begun = before;
    }
  }

  readonly listen = (event: RackEvent): void => {
    // A call that a tool makes begins in the context of that tool, so its span finds its parent by itself.
    if (event.type === "state" && event.status === "pending" && isTracing() && !this.#knows(event.callId)) {
      this.#start(event.callId, event.toolName, context.active());
    }
    if (event.type === "record") this.#end(event.record, event.result);
  };

  #knows(callId: string): boolean {
    return callId === this.#begun || this.#open.get(callId) !== undefined;
  }

  #start(callId: string, toolName: string, parent: ReturnType<typeof context.active>, info?: ToolInfo): Span {
    const startTime: TimeInput = Date.now();
    const span = this.#tracer.startSpan(
      `execute_tool ${toolName}`,
      { kind: SpanKind.INTERNAL, startTime },
      parent,
    );
    if (!span.isRecording()) return span;
    this.#open.set(callId, span);
    span.setAttributes({
      [names.operation]: "execute_tool",
      [names.tool]: toolName,
      [names.toolType]: "function",
      [names.callId]: callId,
    });
    if (info?.description !== undefined) span.setAttribute(names.description, info.description);
    return span;
  }

  #end(record: ToolCallRecord, result: ToolResult): void {
    const span = this.#open.get(record.callId);
    if (span === undefined) return;
    this.#open.delete(record.callId);
    // The call may have been made by an alias.
    span.updateName(`execute_tool ${record.toolName}`).setAttribute(names.tool, record.toolName);
    if (record.sessionID !== "") span.setAttribute(names.conversation, record.sessionID);
    if (record.caller !== "") span.setAttribute(names.caller, record.caller);
    if (capturesContent) {
      span.setAttribute(names.arguments, JSON.stringify(record.parameters).slice(0, LONGEST_VALUE));
      span.setAttribute(names.result, result.content.slice(0, LONGEST_VALUE));
    }
    if (record.error !== undefined) {
      span.setAttribute(names.error, record.error.code);
      span.setStatus({ code: SpanStatusCode.ERROR, message: record.error.message });
    }
    span.end();
  }
}

/** Whether somebody in this process has brought an OpenTelemetry SDK; it may come at any time. */
function isTracing(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("toolrack") !== undefined;
}
