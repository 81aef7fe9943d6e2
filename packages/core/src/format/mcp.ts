import { cloneJson } from "../schema/json.ts";
import { isRecord, type JsonSchemaObject, typesOf } from "../schema/visit.ts";
import type { ToolInfo, ToolMetadata } from "../tool/types.ts";
import {
  callIdAt,
  type FormattedTools,
  formatTools,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

const hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] as const;
type McpToolAnnotations = { readonly title?: string } & {
  readonly [hint in (typeof hints)[number]]?: boolean;
};

/** A member of the answer to `tools/list`. */
interface McpTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchemaObject & { readonly type: "object" };
  readonly outputSchema?: JsonSchemaObject;
  readonly annotations?: McpToolAnnotations;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

const names = { accepts: /^[A-Za-z0-9_.-]{1,128}$/, maxLength: 128 };

/** The `tools` of `tools/list`. Schemas stay as they are; only a missing `type: "object"` is added. */
export function toMcpTools(tools: Iterable<ToolInfo | ToolDefinition>): FormattedTools<McpTool> {
  return formatTools(tools, {
    names,
    format: ({ title, description, inputSchema, outputSchema, metadata }, name) => {
      const annotations = annotationsOf(title, metadata);
      return {
        tool: {
          name,
          ...(title !== undefined && { title }),
          ...(description !== undefined && { description }),
          inputSchema: withObjectRoot(cloneJson(inputSchema)),
          ...(outputSchema !== undefined &&
            metadata.outputCheck !== "hint" && { outputSchema: cloneJson(outputSchema) }),
          ...(annotations !== undefined && { annotations }),
          ...(isRecord(metadata._meta) && { _meta: cloneJson(metadata._meta) }),
        },
      };
    },
  });
}

/** Reads the `params` of `tools/call`. Never throws. By the protocol, missing arguments mean none. */
export function parseMcpToolCall(params: unknown, requestId?: string | number): ToolCallRequest {
  const call = isRecord(params) ? params : {};
  return {
    id: requestId === undefined ? callIdAt(0) : String(requestId),
    name: typeof call.name === "string" ? call.name : "",
    arguments: call.arguments ?? {},
  };
}

function withObjectRoot(schema: JsonSchemaObject): McpTool["inputSchema"] {
  const types = typesOf(schema);
  if (types !== undefined && !types.includes("object")) {
    throw new TypeError(`arguments must be an object, not ${types.join(" or ")}`);
  }
  return { ...schema, type: "object" };
}

/** A tool of another MCP server keeps that server's hints, unless the rack's metadata say otherwise. */
function annotationsOf(title: string | undefined, metadata: ToolMetadata): McpToolAnnotations | undefined {
  const annotations: McpToolAnnotations = {
    ...(isRecord(metadata.annotations) && wellFormed(metadata.annotations)),
    ...(title !== undefined && { title }),
    ...(metadata.readOnly !== undefined && { readOnlyHint: metadata.readOnly }),
    ...(metadata.dangerous !== undefined && { destructiveHint: metadata.dangerous }),
    ...(metadata.idempotent !== undefined && { idempotentHint: metadata.idempotent }),
    ...(metadata.openWorld !== undefined && { openWorldHint: metadata.openWorld }),
  };
  return Object.keys(annotations).length === 0 ? undefined : annotations;
}

/** Leaves out invalid hints: a client would refuse the whole list for one of them. */
function wellFormed(annotations: Readonly<Record<string, unknown>>): McpToolAnnotations {
  const kept = Object.entries(annotations).filter(([name, value]) => {
    if (name === "title") return typeof value === "string";
    return !hints.some((hint) => hint === name) || typeof value === "boolean";
  });
  return cloneJson(Object.fromEntries(kept));
}
