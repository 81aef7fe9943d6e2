import { Tool, type ToolInfo } from "@toolrack/core";
import type { CallBook, CallLog } from "../calls/index.ts";
import { type LogLine, readLog } from "../calls/index.ts";
import { whereOf } from "../helpers/index.ts";
import { failures, type LoadOptions, type LoadReport } from "./load-report.ts";

/** `buildReload_tool` of the toolbox contract: reloads the tool files and reports the outcome. */
export function buildReloadTool(reload: (options: LoadOptions) => Promise<LoadReport>): ToolInfo {
  return Tool.define({
    name: "buildReload_tool",
    description:
      "Compiles and reloads the tool files of the workspace, and says what was compiled, loaded, removed and " +
      "refused. Call it after a tool file was added or changed; when it succeeds the tool can be called at once.",
    parameters: {
      type: "object",
      properties: {
        force: {
          type: "boolean",
          default: false,
          description: "Also loads files anew that have not changed.",
        },
      },
    },
    metadata: { category: "toolbox", idempotent: true, loop: false },
    execute: async ({ input }) => {
      const report = await reload({ force: input.force === true });
      const refused = failures(report);
      const { compiled, added, changed, removed, duration } = report;
      const tools = report.files.flatMap((file) => file.tools);
      const summary = {
        success: refused.length === 0,
        build: { success: refused.length === 0, compiled },
        reload: { success: refused.length === 0, tools, added, changed, removed },
        refused,
        warnings: report.files.flatMap(({ file, warnings }) =>
          warnings.map((warning) => `${file}: ${warning}`),
        ),
        duration: Math.round(duration),
      };
      const problems = refused.map((failure) => `${whereOf(failure)}: ${failure.reason} ${failure.remedy}`);
      const text = [...problems, JSON.stringify(summary, null, 2)].join("\n");
      return {
        content: [{ type: "text", text }],
        structuredContent: summary,
        ...(refused.length === 0 ? {} : { isError: true }),
      };
    },
  });
}

/**
 * `log_tool` of the toolbox contract: searches the log. A caller without an admin grant sees only its own
 * calls and the calls nested in them, as over HTTP.
 */
export function logTool(log: CallLog, book: Pick<CallBook, "firstCallerOf" | "isAdmin">): ToolInfo {
  return Tool.define({
    name: "log_tool",
    description:
      "Looks up recorded tool calls in the log by tool, status, duration and time, a page at a time. " +
      "Only an admin sees the calls of others.",
    parameters: {
      type: "object",
      properties: {
        tool: {
          type: "string",
          description: "A name, a glob such as internal_file_*, or /a regular expression/.",
        },
        toolName: { type: "string", description: "The same as tool, as older callers write it." },
        status: { enum: ["success", "error"], description: "Only calls that ended this way." },
        caller: { type: "string", description: "Only calls of this caller." },
        minDuration: { type: "number", minimum: 0, description: "At least this many milliseconds." },
        maxDuration: { type: "number", minimum: 0, description: "At most this many milliseconds." },
        startTime: { type: "string", description: "From this time on, such as 2026-03-15T02:29:40Z." },
        endTime: { type: "string", description: "Up to this time, written like startTime." },
        page: { type: "integer", minimum: 1, default: 1, description: "Which page, from 1." },
        pageSize: { type: "integer", minimum: 1, maximum: 500, default: 20, description: "Lines a page." },
        order: { enum: ["newest", "oldest"], default: "newest", description: "Which come first." },
      },
    },
    metadata: { category: "toolbox", readOnly: true },
    execute: async ({ input, signal, callId }) => {
      const { page = 1, pageSize = 20, order = "newest", toolName, tool = toolName, ...rest } = input;
      const query = { ...rest, ...(tool === undefined ? {} : { tool }) };
      log.flush();
      const isVisible = book.isAdmin(callId)
        ? () => true
        : await ownLines(log.file, book.firstCallerOf(callId), signal);
      const found: LogLine[] = [];
      for await (const line of readLog(log.file, query)) {
        signal.throwIfAborted();
        if (isVisible(line)) found.push(line);
      }
      if (order === "newest") found.reverse();
      const lines = found.slice((page - 1) * pageSize, page * pageSize);
      return { total: found.length, page, pages: Math.ceil(found.length / pageSize), lines };
    },
  });
}

/**
 * Returns a function that tells whether a line of the log is about a call that the caller made, or about one
 * nested in it. The log is read a first time for this, because nested calls are logged before their parent.
 */
async function ownLines(
  file: string,
  caller: string | undefined,
  signal: AbortSignal,
): Promise<(line: LogLine) => boolean> {
  const parents = new Map<string, string>();
  const own = new Set<string>();
  for await (const { callId, parentCallId, caller: maker } of readLog(file)) {
    signal.throwIfAborted();
    if (parentCallId !== undefined) parents.set(callId, parentCallId);
    else if (maker === caller && caller !== undefined) own.add(callId);
  }
  return ({ callId }) => {
    let at = callId;
    // A damaged log may lead in a circle.
    for (let depth = 0; depth < DEEPEST; depth++) {
      const parent = parents.get(at);
      if (parent === undefined) return own.has(at);
      at = parent;
    }
    return false;
  };
}

/** Chains are no deeper than the pipeline allows. */
const DEEPEST = 64;
