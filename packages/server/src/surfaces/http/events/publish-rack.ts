import type { RackEvent, ToolCallRecord } from "@toolrack/core";
import type { CallDesk } from "../../../calls/call-desk.ts";
import type { LoadEvent, McpServers } from "../../../index.ts";
import type { StoredApproval } from "../../../store/approvals/approval-store.ts";
import type { CallLine } from "../../../store/calls/call-line.ts";
import type { EventFeed } from "./event-feed.ts";
import { LatestOnly } from "./latest-only.ts";
import { summaryOf } from "./reload-log.ts";

const LONGEST_TEXT = 500;
const LONGEST_LIST = 20;
const MOST_LINES = 50;

/** Tells the feed what happens on the rack. Events hold ids and summaries; bodies are read by id. */
export function publishRack(feed: EventFeed, desk: Pick<CallDesk, "callerOf">): (event: RackEvent) => void {
  const started = new Set<string>();
  /** What calls said in this turn of the event loop. */
  const said = new Map<string, CallLine[]>();
  const latest = new LatestOnly();
  const tell = (type: string, callId: string, data: object) => {
    const caller = desk.callerOf(callId);
    feed.publish(type, { callId, ...data }, caller === undefined ? "admins" : { caller });
  };
  return (event) => {
    // A call that began before anybody followed is told of as begun when it next says something.
    if (!feed.isFollowed) return;
    switch (event.type) {
      case "tools":
        feed.publish("tools.changed", { version: event.version }, "everyone");
        return;
      case "state": {
        const { callId, toolName, status, title } = event;
        if (status === "completed" || status === "error") return; // The end is told by the record, which says more.
        const shown = { toolName, ...(title === undefined ? {} : { title: clip(title) }), at: Date.now() };
        if (status === "pending") return tell("call.queued", callId, shown);
        if (started.has(callId)) latest.set(callId, "updated", () => tell("call.updated", callId, shown));
        else tell("call.started", callId, shown);
        started.add(callId);
        return;
      }
      case "progress": {
        const { callId, toolName, update } = event;
        const told = update.message === undefined ? {} : { message: clip(update.message) };
        latest.set(callId, "progress", () => tell("call.progress", callId, { toolName, ...update, ...told }));
        return;
      }
      case "log": {
        const { callId, toolName, level, text, at } = event;
        const lines = said.get(callId) ?? [];
        said.set(callId, lines);
        // Of more in one turn, the record has the first and the last.
        if (lines.length < MOST_LINES) lines.push({ at, level, text: clip(text) });
        latest.set(callId, "log", () => {
          said.delete(callId);
          tell("call.log", callId, { toolName, lines });
        });
        return;
      }
      case "record": {
        const { record, result } = event;
        started.delete(record.callId);
        latest.flush(record.callId);
        tell(nameOf(record), record.callId, endOf(record, result.content.length));
        return;
      }
      case "approval": {
        const { input: _, details: __, ...request } = event.request;
        const asked = { ...request, message: clip(request.message) };
        if (event.decision === undefined) return tell("call.approval_requested", request.callId, asked);
        const { decision, reason } = event.decision;
        tell("call.approval_resolved", request.callId, { ...asked, decision, reason: clip(reason ?? "") });
        return;
      }
      case "loop": {
        const { callId, sessionID, verdict } = event;
        tell("loop.detected", callId, {
          sessionID,
          action: verdict.action,
          evidence: clip(verdict.evidence ?? ""),
        });
        return;
      }
    }
  };
}

/** Tells the feed of questions that can be answered by their id, and of what became of them. */
export function publishApprovals(feed: EventFeed): (approval: StoredApproval) => void {
  return ({
    id,
    callId,
    parentCallId,
    toolName,
    displayName,
    caller,
    sessionID,
    state,
    expiresAt,
    message,
  }) => {
    const shown = { id, callId, parentCallId, toolName, displayName, caller, sessionID, state, expiresAt };
    feed.publish("approval.changed", { ...shown, message: clip(message) }, "admins");
  };
}

/** Tells the feed of each load of the tool files, whoever asked for it. */
export function publishLoads(feed: EventFeed): (event: LoadEvent) => void {
  return (event) => {
    if (event.type === "started") feed.publish("reload.started", {}, "admins");
    if (event.type === "finished") {
      feed.publish("reload.finished", summaryOf(event.report, LONGEST_LIST), "admins");
    }
    if (event.type === "failed") {
      const { error } = event;
      const message = clip(error instanceof Error ? error.message : String(error));
      feed.publish("reload.failed", { message }, "admins");
    }
  };
}

/**
 * Tells the feed of each upstream MCP server whose state, tools, reason or problem became another, and of those that are gone.
 * To be called whenever something about the servers changed.
 */
export function publishMcpServers(
  feed: EventFeed,
  servers: Pick<McpServers, "list" | "fileProblem" | "problems">,
): () => void {
  let before = new Map<string, string>();
  let fileBefore = fileOf(servers);
  return () => {
    const file = fileOf(servers);
    if (file !== fileBefore) {
      const { fileProblem } = servers;
      feed.publish("mcp.file", fileProblem === undefined ? {} : { problem: clip(fileProblem) }, "admins");
    }
    fileBefore = file;
    const now = new Map<string, string>();
    for (const server of servers.list()) {
      const { key, state, reason, problem, resting, failures, tools, quarantined, since, signIn } = server;
      const shown = { key, state, ...(reason === undefined ? {} : { reason: clip(reason) }) };
      const told = {
        ...shown,
        ...(problem === undefined ? {} : { problem: clip(problem) }),
        resting,
        failures,
        tools,
        quarantined,
        since,
        ...(signIn === undefined ? {} : { signIn }),
      };
      const text = JSON.stringify(told);
      now.set(key, text);
      if (before.get(key) !== text) feed.publish("mcp.server", told, "admins");
    }
    for (const key of before.keys()) {
      if (!now.has(key)) feed.publish("mcp.server", { key, state: "removed" }, "admins");
    }
    before = now;
  };
}

/** What is wrong with the file of the servers, to be compared. */
function fileOf({ fileProblem, problems }: Pick<McpServers, "fileProblem" | "problems">): string {
  return JSON.stringify([fileProblem, [...problems]]);
}

function nameOf({ status, error }: ToolCallRecord): string {
  if (status === "completed") return "call.completed";
  return error?.code === "cancelled" ? "call.cancelled" : "call.failed";
}

function endOf(record: ToolCallRecord, resultSize: number): object {
  const { parentCallId, toolName, displayName, sessionID, caller, timestamp, duration, error } = record;
  return {
    ...(parentCallId === undefined ? {} : { parentCallId }),
    toolName,
    displayName,
    sessionID,
    caller,
    timestamp,
    duration,
    resultSize,
    ...(error === undefined ? {} : { error: { code: error.code, message: clip(error.message) } }),
  };
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}
