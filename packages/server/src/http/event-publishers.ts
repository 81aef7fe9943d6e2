import { isDeepStrictEqual } from "node:util";
import type { RackEvent, ToolCallRecord } from "@toolrack/core";
import type { ToolSwitches } from "../access/index.ts";
import type { ApprovalInbox, CallService } from "../calls/index.ts";
import type { LoadEvent, LoadReport, ToolFiles } from "../files/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { ConnectedClient } from "../mcp/wire/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import type { CallLine, StoredApproval } from "../store/index.ts";
import { type EventFeed, LatestOnly } from "./events.ts";

const LONGEST_TEXT = 500;
const LONGEST_LIST = 20;
const MOST_LINES = 50;

/** The MCP clients that have sent requests since the server started. */
export interface ConnectedClients {
  list(): ConnectedClient[];
  /** Returns a function that unsubscribes. */
  subscribe(listener: (client: ConnectedClient) => void): () => void;
}

interface Published {
  readonly approvals: ApprovalInbox;
  readonly files: ToolFiles;
  readonly mcpServers: McpServers | undefined;
  readonly clients: ConnectedClients | undefined;
}

/**
 * Publishes to the feed: approvals, loads of the tool files, and changes of upstream MCP servers and MCP
 * clients. Returns functions that stop it.
 */
export function publishServices(feed: EventFeed, services: Published): (() => void)[] {
  const { approvals, files, mcpServers, clients } = services;
  const stops = [
    approvals.subscribe((approval) => {
      feed.publish("approval.changed", approvalOf(approval), "admins");
      // Others may approve some tools and must not learn of questions about the rest, so they read anew what they may see.
      feed.publish("approval.changed", {}, "approvers");
    }),
    files.subscribe((event) => feed.publish(`reload.${event.type}`, loadOf(event), "admins")),
  ];
  if (mcpServers !== undefined) stops.push(mcpServers.subscribe(publishMcpServers(feed, mcpServers)));
  const stopClients = clients?.subscribe(({ name, version, era, caller, expert }) =>
    feed.publish("client.connected", { name, version, era, caller, expert }, "admins"),
  );
  return stopClients === undefined ? stops : [...stops, stopClients];
}

/** The rack's events about calls. They are published only once the feed has had a reader. */
export const callEvents = ["state", "progress", "log", "record", "approval", "loop"] as const;

/**
 * Returns a listener that publishes the rack's events to the feed. Published events hold ids and summaries;
 * readers fetch the rest by id.
 */
export function publishRack(feed: EventFeed, service: Pick<CallService, "find">): (event: RackEvent) => void {
  const started = new Set<string>();
  /** The log lines of this turn of the event loop, by call id. */
  const linesByCall = new Map<string, CallLine[]>();
  const latest = new LatestOnly();
  const tell = (type: string, callId: string, data: object) => {
    const caller = service.find(callId)?.caller;
    feed.publish(type, { callId, ...data }, caller === undefined ? "admins" : { caller });
  };
  return (event) => {
    switch (event.type) {
      case "tools":
        feed.publish("tools.changed", { version: event.version }, "everyone");
        return;
      case "state": {
        const { callId, toolName, status, title } = event;
        if (status === "completed" || status === "error") return; // The `record` event announces the end.
        const shown = { toolName, title: title && clip(title), at: Date.now() };
        if (status === "pending") return tell("call.queued", callId, shown);
        if (started.has(callId)) latest.set(callId, "updated", () => tell("call.updated", callId, shown));
        else tell("call.started", callId, shown);
        started.add(callId);
        return;
      }
      case "progress": {
        const { callId, toolName, update } = event;
        const payload = { toolName, ...update, message: update.message && clip(update.message) };
        latest.set(callId, "progress", () => tell("call.progress", callId, payload));
        return;
      }
      case "log": {
        const { callId, toolName, level, text, at } = event;
        const lines = linesByCall.get(callId) ?? [];
        linesByCall.set(callId, lines);
        // Further lines of the same turn are only in the call record.
        if (lines.length < MOST_LINES) lines.push({ at, level, text: clip(text) });
        latest.set(callId, "log", () => {
          linesByCall.delete(callId);
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
        const { action, evidence = "" } = verdict;
        tell("loop.detected", callId, { sessionID, action, evidence: clip(evidence) });
        return;
      }
    }
  };
}

function nameOf({ status, error }: ToolCallRecord): string {
  if (status === "completed") return "call.completed";
  return error?.code === "cancelled" ? "call.cancelled" : "call.failed";
}

function endOf(record: ToolCallRecord, resultSize: number): object {
  const { parentCallId, toolName, displayName, sessionID, caller, timestamp, duration } = record;
  const error = record.error && { code: record.error.code, message: clip(record.error.message) };
  const facts = { parentCallId, toolName, displayName, sessionID, caller, timestamp, duration };
  return { ...facts, resultSize, error };
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}

function approvalOf(approval: StoredApproval): object {
  const { id, callId, parentCallId, toolName, displayName, caller, sessionID, state, expiresAt } = approval;
  const shown = { id, callId, parentCallId, toolName, displayName, caller, sessionID, state, expiresAt };
  return { ...shown, message: clip(approval.message) };
}

function loadOf(event: LoadEvent): object {
  if (event.type === "started") return {};
  if (event.type === "finished") return summaryOf(event.report, LONGEST_LIST);
  const { error } = event;
  return { message: clip(reasonOf(error)) };
}

/**
 * Returns a function to call whenever something about the upstream MCP servers changed. It publishes every
 * server that was removed or whose state, tools, reason or problem changed, and changed problems of the
 * servers' file.
 */
function publishMcpServers(feed: EventFeed, servers: McpServers): () => void {
  // The problems of the servers' file as text, for comparison.
  const fileNow = () => JSON.stringify([servers.fileProblem, [...servers.problems]]);
  let fileBefore = fileNow();
  const publishServers = publishChanges(
    () =>
      servers.list().map((server) => {
        const { key, state, reason, problem, resting, failures, tools, quarantined, since, signIn } = server;
        const words = { reason: reason && clip(reason), problem: problem && clip(problem) };
        const payload = { key, state, ...words, resting, failures, tools, quarantined, since, signIn };
        return { key, payload, state: JSON.stringify(payload) };
      }),
    (payload) => feed.publish("mcp.server", payload, "admins"),
    (key) => feed.publish("mcp.server", { key, state: "removed" }, "admins"),
    Object.is,
    new Map(),
  );
  return () => {
    const file = fileNow();
    const { fileProblem: problem } = servers;
    if (file !== fileBefore) feed.publish("mcp.file", { problem: problem && clip(problem) }, "admins");
    fileBefore = file;
    publishServers();
  };
}

/**
 * Publishes to the feed: changed and removed skills and experts, and tools that were switched on or off.
 * Returns functions that stop it.
 */
export function publishLibrary(
  feed: EventFeed,
  skills: SkillLibrary,
  switches: ToolSwitches,
): (() => void)[] {
  const publish = <State>(kind: string, readItems: ReadItems<State>, isSame: IsSame<State>) =>
    publishChanges(
      readItems,
      (payload) => feed.publish(`${kind}.changed`, payload, "admins"),
      (id) => feed.publish(`${kind}.removed`, { id }, "admins"),
      isSame,
    );
  const skillsNow = () =>
    skills.list().map((skill) => {
      const { id, name, enabled, trusted, owner, tools } = skill;
      return {
        key: id,
        payload: { id, name, enabled, trusted, owner, toolCount: tools.length },
        state: skill,
      };
    });
  const expertsNow = () =>
    skills.experts.list().map(({ id, name, updatedAt, version }) => {
      return { key: id, payload: { id, name }, state: JSON.stringify([id, name, updatedAt, version]) };
    });
  return [
    skills.subscribe(publish("skill", skillsNow, isSameSkill)),
    skills.experts.subscribe(publish("expert", expertsNow, Object.is)),
    switches.subscribe(({ toolName, enabled, by, at }) =>
      feed.publish("tool.switched", { toolName, enabled, by, at }, "admins"),
    ),
  ];
}

interface Seen<State> {
  readonly key: string;
  readonly payload: object;
  /** What tells two versions of the item apart. */
  readonly state: State;
}

type ReadItems<State> = () => readonly Seen<State>[];
type IsSame<State> = (one: State, other: State) => boolean;
type Skill = ReturnType<SkillLibrary["list"]>[number];

/** What has not changed is mostly the same object as before, and there may be thousands of skills and of their tools. */
function isSameSkill(one: Skill, other: Skill): boolean {
  if (one === other) return true;
  const { tools, ...head } = one;
  const { tools: others, ...otherHead } = other;
  if (tools.length !== others.length || !isDeepStrictEqual(head, otherHead)) return false;
  return tools.every((tool, at) => tool === others[at] || isDeepStrictEqual(tool, others[at]));
}

/**
 * Returns a function that publishes the items that changed or disappeared since its last call. Items that
 * exist already count as published unless `known` is given, because new readers read the list anyway.
 */
function publishChanges<State>(
  readItems: ReadItems<State>,
  changed: (payload: object) => void,
  removed: (key: string) => void,
  isSame: IsSame<State>,
  known = new Map(readItems().map(({ key, state }) => [key, state])),
): () => void {
  return () => {
    const gone = new Set(known.keys());
    for (const { key, payload, state } of readItems()) {
      const before = known.get(key);
      if (before === undefined || !isSame(before, state)) changed(payload);
      known.set(key, state);
      gone.delete(key);
    }
    for (const key of gone) {
      known.delete(key);
      removed(key);
    }
  };
}

/** One load of the tool files. */
interface Reload extends Pick<LoadReport, "added" | "changed" | "removed" | "duration"> {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly failed: readonly string[];
}

const MOST = 100;
const LONGEST_RELOAD_LIST = 200;

export class ReloadLog {
  readonly #reloads: Reload[] = [];

  /**
   * `first`: the report of the load at the opening of the workspace. It happened before anybody could subscribe to
   * loads.
   */
  constructor(first: LoadReport) {
    this.#add(first);
  }

  readonly listen = (event: LoadEvent): void => {
    if (event.type === "finished") this.#add(event.report);
  };

  /** The loads, newest first. */
  list(): Reload[] {
    return this.#reloads.toReversed();
  }

  #add(report: LoadReport): void {
    this.#reloads.push({ at: Date.now(), ...summaryOf(report, LONGEST_RELOAD_LIST) });
    if (this.#reloads.length > MOST) this.#reloads.shift();
  }
}

/** A summary of a load, with at most `limit` names in each list. */
function summaryOf(report: LoadReport, limit: number): Omit<Reload, "at"> {
  const { added, changed, removed, duration, files } = report;
  const failed = files
    .filter(({ status }) => status === "failed" || status === "stale")
    .map(({ file }) => file);
  const few = (names: readonly string[]) => names.slice(0, limit);
  return { added: few(added), changed: few(changed), removed: few(removed), failed: few(failed), duration };
}
