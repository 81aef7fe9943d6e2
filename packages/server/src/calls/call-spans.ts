import {
  context,
  INVALID_TRACEID,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TimeInput,
  trace,
} from "@opentelemetry/api";
import type { ToolCallRecord, ToolInfo, ToolResult } from "@toolrack/core";
import type { CallFollower, LiveCall } from "./call-book.ts";

/**
 * Attribute names of OpenTelemetry's conventions for generative AI. They may still change, so only this table has them.
 */
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

/** Arguments and results go to a tracing system only when the operator asks for it. */
const capturesContent = process.env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT === "true";

/** Makes a span for every call. Used only in a process with an OpenTelemetry SDK. */
export class CallSpans implements CallFollower {
  readonly #tracer = trace.getTracer("toolrack");

  /** Makes a call inside a span of its own, which continues the trace that the request's headers name. */
  run<Answer>(
    call: LiveCall,
    info: ToolInfo | undefined,
    headers: Readonly<Record<string, string | string[] | undefined>> | undefined,
    execute: () => Answer,
  ): Answer {
    const remote = propagation.extract(context.active(), headers ?? {});
    const span = this.#start(call, remote, info);
    if (span.spanContext().traceId === INVALID_TRACEID) return execute();
    return context.with(trace.setSpan(remote, span), execute);
  }

  /** A nested call begins in the async context of its tool, so its span finds its parent by itself. */
  begun(call: LiveCall): void {
    if (call.span === undefined) this.#start(call, context.active());
  }

  #start(call: LiveCall, parent: ReturnType<typeof context.active>, info?: ToolInfo): Span {
    const { callId, toolName } = call;
    const startTime: TimeInput = Date.now();
    const span = this.#tracer.startSpan(
      `execute_tool ${toolName}`,
      { kind: SpanKind.INTERNAL, startTime },
      parent,
    );
    call.span = span;
    if (!span.isRecording()) return span;
    span.setAttributes({
      [names.operation]: "execute_tool",
      [names.tool]: toolName,
      [names.toolType]: "function",
      [names.callId]: callId,
    });
    if (info?.description !== undefined) span.setAttribute(names.description, info.description);
    return span;
  }

  ended(call: LiveCall | undefined, record: ToolCallRecord, result: ToolResult): void {
    const span = call?.span;
    if (span === undefined || !span.isRecording()) return;
    // The call may have used an alias.
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
