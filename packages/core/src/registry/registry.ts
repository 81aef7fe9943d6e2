import type { AdmittedCall, CallLink, PerformedCall } from "../call/admitted-call.ts";
import { CallFrame, CallHistory, type CallHost, type FrameDispatcher } from "../call/call-frame.ts";
import { frameOf } from "../call/context.ts";
import { abortCall, cancelCall, expireCall, startCall } from "../call/engine.ts";
import { EventHub, type RackEvent, type RackListener, type ToolCallRecord } from "../call/events.ts";
import { assessHistory, LoopSessions, sessionKey } from "../call/loop-sessions.ts";
import type { Mask } from "../call/mask.ts";
import { KeptResults, type PageOptions, pageOf, type ResultPage } from "../call/results.ts";
import {
  type CallOptions,
  type CallSettings,
  type CheckedSettings,
  checkedSettings,
} from "../call/settings.ts";
import { isWithinReach, requireStanding } from "../call/stages/admission.ts";
import { recordOf, stateOf, updateState } from "../call/state.ts";
import { Deadlines, inTurns, pausing, readClock, untilNextTurn } from "../call/time.ts";
import { noneForCaller, notFound } from "../error/messages.ts";
import { revivedError, type ToolError, ToolNotFoundError, toToolError } from "../error/tool-error.ts";
import { loopMessage } from "../loop/loop-messages.ts";
import { clearForNewMessage, rollback } from "../loop/loop-state.ts";
import type { LoopState, LoopVerdict } from "../loop/types.ts";
import type { DefinitionError } from "../tool/define.ts";
import { nearestNames } from "../tool/name.ts";
import type { ToolResult } from "../tool/result.ts";
import type { RegistryView, ToolContext, ToolInfo, ToolState } from "../tool/types.ts";
import { Catalog, CatalogReader, RegistrySnapshot, USUAL_LIMIT } from "./catalog.ts";
import { type ToolEntry, toEntry } from "./entry.ts";
import { type SearchHelper, ToolSearch } from "./search/tool-search.ts";

/** A tool that `apply` could not register. */
export interface RefusedTool {
  readonly info: ToolInfo;
  readonly error: DefinitionError;
}

export interface DoomLoopDetectionResult extends LoopVerdict {
  readonly isDoomLoop: boolean;
  readonly reason?: string;
  readonly suggestedAction?: string;
}

const noOptions: CallOptions = Object.freeze({});
/** How many similar names an error for an unknown tool suggests. */
const NEAREST = 3;

/** The rack: the tools, their calls, and the history of the calls. */
export class ToolRegistry extends CatalogReader {
  readonly #search: ToolSearch;
  protected catalog: Catalog;
  #snapshot: RegistrySnapshot | undefined;
  #preparing: Promise<void> | undefined;
  /** What is read before the next prepared search. */
  readonly #searchSources: (() => Promise<void>)[] = [];
  #version = 0;
  readonly #host: CallHost;
  readonly #sessions: LoopSessions;

  constructor(settings: Partial<CallSettings> = {}) {
    super();
    const checked = checkedSettings(settings);
    this.#search = new ToolSearch(checked.search);
    this.catalog = new Catalog(this.#search);
    this.#sessions = new LoopSessions(checked.loop);
    this.#host = this.#makeHost(checked);
    const { words } = checked.search;
    if (words !== undefined)
      this.#searchSources.push(async () => {
        const vectors = await words();
        // Opening them takes 10 ms: a turn of the event loop for it alone.
        await untilNextTurn();
        if (vectors !== undefined) this.catalog.useWords(vectors);
      });
  }

  get timeout(): number {
    return this.#host.settings.timeout;
  }

  /** Throws `DefinitionError` and changes nothing when the tool is invalid or one of its names is taken. */
  register(info: ToolInfo): void {
    const entry = toEntry(info);
    this.#change((catalog) => catalog.add(entry));
  }

  /** Removes a tool; its running calls finish as usual. Returns false when there is no such tool. */
  unregister(name: string): boolean {
    const entry = this.catalog.find(name);
    if (entry === undefined) return false;
    this.#change((catalog) => {
      catalog.suspend(entry);
      catalog.drop(entry);
    });
    return true;
  }

  /** Replaces a tool by a new version; running calls finish with the version that they started with. */
  update(name: string, updates: Partial<ToolInfo>): void {
    const entry = this.#require(name);
    const next = entry.with(updates);
    this.#change((catalog) => catalog.replace(entry, next));
  }

  /**
   * Removes and registers tools in one step: readers see all of the changes or none. A tool that replaces a
   * disabled tool of the same name is disabled too. Returns the tools that could not be registered.
   */
  apply(changes: { readonly remove?: Iterable<string>; readonly put?: Iterable<ToolInfo> }): RefusedTool[] {
    const leaving = new Map<string, ToolEntry>();
    for (const name of changes.remove ?? []) {
      const entry = this.catalog.find(name);
      if (entry !== undefined) leaving.set(entry.key, entry);
    }
    const refused: RefusedTool[] = [];
    this.#change((catalog) => {
      // All names of removed tools are free before others are added, so two tools may exchange theirs.
      for (const entry of leaving.values()) catalog.suspend(entry);
      for (const info of changes.put ?? []) {
        try {
          const entry = toEntry(info);
          const old = leaving.get(entry.key);
          catalog.add(old?.info.disabled ? entry.with({ disabled: true }) : entry);
          leaving.delete(entry.key);
        } catch (thrown) {
          refused.push({ info, error: thrown as DefinitionError }); // `toEntry` and `add` throw nothing else.
        }
      }
      for (const entry of leaving.values()) catalog.drop(entry);
    });
    return refused;
  }

  disable(name: string): void {
    this.update(name, { disabled: true });
  }

  enable(name: string): void {
    this.update(name, { disabled: false });
  }

  /** Returns the tool. Throws `ToolNotFoundError`, which suggests similar names, when there is none. */
  require(name: string): ToolInfo {
    return this.#require(name).info;
  }

  /** Makes the error for an unknown tool. `isThere` returns whether the caller may know of a tool. */
  notFound(name: string, isThere?: (tool: ToolInfo) => boolean): ToolNotFoundError {
    const names = isThere && this.getAll().flatMap((info) => (isThere(info) ? [info.name] : []));
    const suggestions = names === undefined ? this.#host.nearest(name) : nearestNames(name, names, NEAREST);
    const message =
      names?.length === 0
        ? noneForCaller(name)
        : notFound(name, suggestions, names?.length ?? this.catalog.size);
    return new ToolNotFoundError(message, { toolName: name, data: { suggestions } });
  }

  /**
   * Brings the search index up to date without holding up other work for long. A search does so at once, which takes
   * more than a second for the first search of 50,000 tools. Also reads, before the first search, the vectors of words and
   * what was learned; a search that nobody prepared goes without them. Never rejects.
   */
  prepareSearch(): Promise<void> {
    this.#preparing ??= this.#openSearch()
      .then(() => inTurns(this.#search.indexSteps()))
      .finally(() => {
        this.#preparing = undefined;
      });
    return this.#preparing;
  }

  /** From now on, searches are helped. Called again, by another one instead. */
  helpSearch(helper: SearchHelper): void {
    this.#search.helper = helper;
    this.#searchSources.push(() => helper.open());
  }

  /** Different after each change of what searches find, beside changes of the tools. */
  get searchVersion(): number {
    return this.#search.helper?.version ?? 0;
  }

  async #openSearch(): Promise<void> {
    const { logger } = this.#host.settings;
    for (const read of this.#searchSources.splice(0))
      await read().catch((error) => logger.warn("Search goes without a part of what helps it:", error));
  }

  /** The rack as it is now; later changes do not affect it. */
  snapshot(): RegistrySnapshot {
    this.#snapshot ??= new RegistrySnapshot(this.catalog, this.#version);
    return this.#snapshot;
  }

  /** Calls a tool. Never rejects: a failure is a result of type `error` with its `ToolErrorResponse`. */
  execute(name: string, input?: unknown, context: CallOptions = noOptions): Promise<ToolResult> {
    return startCall(this.#frame(name, input, context ?? noOptions, undefined));
  }

  /** Calls a tool as a child of a running call, with no more rights and no more time than that call has. */
  executeChild(
    parent: string | Partial<ToolContext>,
    name: string,
    input?: unknown,
    context: CallOptions = noOptions,
  ): Promise<ToolResult> {
    const frame = typeof parent === "string" ? this.#host.history.get(parent) : frameOf(parent);
    if (frame?.host === this.#host) return this.#startChild(frame, name, input, context);
    // The parent call is unknown, and so are its rights: the new call gets no permissions and is cancelled at
    // once.
    const signal = AbortSignal.abort("the call that makes it is not known here");
    return this.execute(name, input, { ...context, signal, permissions: [] });
  }

  /** Calls a tool on behalf of a call that may have ended, with its rights and session, but not as its child. */
  executeDetached(
    origin: Partial<ToolContext>,
    name: string,
    input?: unknown,
    context: CallOptions = noOptions,
  ): Promise<ToolResult> {
    const frame = frameOf(origin);
    // Only the process that admitted a call knows its rights, and only as long as the call runs.
    if (frame?.admitted !== undefined) return this.#startChild(frame, name, input, context);
    const session = frame === undefined ? {} : { sessionID: frame.sessionID };
    // The new call may use only tools that the original call may use.
    const allow = (tool: ToolInfo) =>
      (frame === undefined || isWithinReach(tool, frame)) && context.allow?.(tool) !== false;
    return this.execute(name, input, {
      ...session,
      ...context,
      allow,
      permissions: frame?.permissions ?? [],
      ...(frame?.mock && { mock: frame.mock }),
    });
  }

  /** From now on, calls of the tools that the dispatcher names a lane for are performed elsewhere. */
  dispatchTo(dispatcher: FrameDispatcher | undefined): void {
    this.#host.dispatcher = dispatcher;
  }

  /**
   * Performs a call that another process admitted: runs the tool, and checks, masks, cuts and records the result. Never
   * rejects. Must only be given calls that were admitted: nothing is checked again.
   */
  perform(admitted: AdmittedCall, link: CallLink): Promise<PerformedCall> {
    const { callId, toolName, input, options, permissions, reach, deadline } = admitted;
    const names = reach && new Set(reach);
    const frame = this.#frame(
      toolName,
      input,
      {
        ...options,
        callId,
        permissions,
        ...(names && { allow: (tool) => names.has(tool.name) }),
        ...(deadline !== undefined && { timeout: Math.max(1, deadline - Date.now()) }),
        ...(link.client && { client: link.client }),
      },
      undefined,
      { ...admitted, link },
    );
    frame.createdAt -= Math.max(0, Date.now() - admitted.createdAt);
    const entry = this.catalog.find(toolName);
    if (entry !== undefined) {
      frame.entry = entry;
      frame.toolName = entry.info.name;
    }
    frame.input = input;
    frame.isLarge = admitted.isLarge;
    if (admitted.flags !== undefined) Object.assign(frame.flag(), admitted.flags);
    return startCall(frame).then((result) => ({
      result,
      error: frame.error?.toResponse(),
      flags: frame.flags,
    }));
  }

  /** Stops the time limits of a call until disposed, because it waits for somebody's answer. */
  pause(callId: string): Disposable | undefined {
    const frame = this.#host.history.get(callId);
    return frame === undefined || frame.ended ? undefined : pausing(frame);
  }

  /** Cancels a call and its children. Returns false when the call is not running. */
  cancel(callId: string, reason?: string): boolean {
    const frame = this.#host.history.get(callId);
    if (frame === undefined || frame.ended) return false;
    cancelCall(frame, reason);
    return true;
  }

  /** Ends a call with an error that another process gives as the reason. Returns false when the call is not running. */
  abort(callId: string, error: ToolError): boolean {
    const frame = this.#host.history.get(callId);
    if (frame === undefined || frame.ended) return false;
    abortCall(frame, error);
    return true;
  }

  getState(callId: string): ToolState | undefined {
    const frame = this.#host.history.get(callId);
    return frame === undefined ? undefined : stateOf(frame);
  }

  /** Adds a title or metadata to a running call. A finished state never changes. */
  updateState(callId: string, state: Partial<ToolState>): void {
    const frame = this.#host.history.get(callId);
    if (frame !== undefined) updateState(frame, state);
  }

  /** Forgets the states and the history of finished calls, and the loop states of all sessions. */
  clearStates(): void {
    this.#host.history.clear();
    this.#sessions.clear();
  }

  activeCalls(): { readonly callId: string; readonly toolName: string; readonly state: ToolState }[] {
    return Array.from(this.#host.history.active(), (frame) => ({
      callId: frame.callId,
      toolName: frame.toolName,
      state: stateOf(frame),
    }));
  }

  /** The last finished calls, oldest first. */
  getCallHistory(limit = this.#host.settings.historyLimit): ToolCallRecord[] {
    return this.#host.history.recent(limit).map((frame) => recordOf(frame));
  }

  /**
   * Tells whether the last finished calls repeat themselves. Looks at the calls of one session ("" for calls
   * without a session) or, without `sessionID`, at each session separately. Changes nothing.
   */
  detectDoomLoop(sessionID?: string): DoomLoopDetectionResult {
    const calls = this.#host.history.recent(this.#host.settings.historyLimit);
    const verdict = assessHistory(
      sessionID === undefined ? calls : calls.filter((call) => call.sessionID === sessionID),
    );
    const isDoomLoop = verdict.action === "block" || verdict.action === "stop";
    const { evidence } = verdict;
    return {
      ...verdict,
      isDoomLoop,
      ...(evidence === undefined ? {} : { reason: evidence, suggestedAction: loopMessage(verdict) }),
    };
  }

  /**
   * The loop state of a session, for JSON. Store it, and pass it to `restoreLoopState` to continue the session. `owner`:
   * the `sessionCaller` in the options of the session's calls.
   */
  getLoopState(sessionID: string, owner?: string): LoopState {
    return this.#sessions.get(sessionKey(sessionID, owner));
  }

  restoreLoopState(sessionID: string, state: LoopState, owner?: string): void {
    this.#sessions.restore(sessionKey(sessionID, owner), state);
  }

  /**
   * Forgets the loop state of a session, so that a session stopped by loop detection may make calls again.
   */
  resumeSession(sessionID: string): void {
    this.#sessions.clear(sessionID);
  }

  /** Must be called when the user sends a new message: repetitions before it no longer count. */
  startNewMessage(sessionID: string): void {
    this.#sessions.change(sessionID, clearForNewMessage);
  }

  /** Removes calls from the loop state of a session: for a model turn that had to be requested again. */
  rollbackCalls(sessionID: string, callIds: readonly string[]): void {
    this.#sessions.change(sessionID, (state) => rollback(state, callIds));
  }

  /** A page of the whole text of a call's result, even if the text was cut for the model. */
  readResult(callId: string, page: PageOptions = {}): ResultPage | undefined {
    const { results, history, settings } = this.#host;
    const kept = results.get(callId);
    const text = kept?.text ?? history.get(callId)?.result?.content;
    if (text === undefined) return undefined;
    const secrets = settings.secrets();
    // Secrets that became known since then are masked too.
    return pageOf(kept?.masked === secrets ? text : secrets.inText(text), page);
  }

  /**
   * Masks every known secret in the texts and numbers of a message. Names of members, types, MIME types and
   * roles stay. Returns the same value when it contains no secret.
   */
  mask<Value>(value: Value): Value {
    return this.secretMask.inMessage(value);
  }

  /** The mask of all secrets that are known now. */
  get secretMask(): Mask {
    return this.#host.settings.secrets();
  }

  /**
   * Calls the listener for all events, or only for events of the given types. Returns a function that
   * unsubscribes.
   */
  subscribe(listener: RackListener, types?: readonly RackEvent["type"][]): () => void {
    return this.#host.events.subscribe(listener, types);
  }

  #change(edit: (catalog: Catalog) => void): void {
    // If a snapshot uses the catalog, the change goes into a copy.
    const catalog = this.#snapshot === undefined ? this.catalog : this.catalog.clone();
    edit(catalog);
    this.catalog = catalog;
    this.#host.catalog = catalog;
    this.#snapshot = undefined;
    this.#version++;
    if (this.#host.events.wanted) this.#host.events.emit({ type: "tools", version: this.#version });
    if (this.#host.undecided.size > 0) this.#endUndecided();
  }

  /**
   * Ends calls that wait for consent but may not run any more, for instance because their tool was removed.
   */
  #endUndecided(): void {
    for (const frame of [...this.#host.undecided]) {
      try {
        requireStanding(frame);
      } catch (thrown) {
        abortCall(frame, toToolError(thrown, frame.toolName, frame.input));
      }
    }
  }

  #require(name: string): ToolEntry {
    const entry = this.catalog.find(name);
    if (entry !== undefined) return entry;
    throw this.notFound(name);
  }

  /** Makes a child of a call. If another process admitted the call, that process makes the child. */
  #startChild(parent: CallFrame, name: string, input: unknown, options: CallOptions): Promise<ToolResult> {
    if (parent.admitted === undefined) return startCall(this.#frame(name, input, options, parent));
    const { caller, tid, sessionID, messageID, line } = options;
    return parent.admitted.link.call(name, input, { caller, tid, sessionID, messageID, line });
  }

  #frame(
    name: string,
    input: unknown,
    options: CallOptions,
    parent: CallFrame | undefined,
    admitted?: CallFrame["admitted"],
  ): CallFrame {
    const { history } = this.#host;
    const wanted = options.callId;
    const callId = typeof wanted === "string" && history.get(wanted) === undefined ? wanted : undefined;
    const asked = typeof name === "string" ? name : nameOf(name);
    const now = readClock();
    return new CallFrame(this.#host, ++history.count, callId, asked, input, options, parent, now, admitted);
  }

  #makeHost(settings: CheckedSettings): CallHost {
    const history = new CallHistory(settings.historyLimit);
    // No member is an accessor: V8 would keep the object as a dictionary, which costs a call 60 ns.
    return {
      settings,
      history,
      results: new KeptResults(settings.keptResults),
      sessions: this.#sessions,
      deadlines: new Deadlines(history, expireCall),
      events: new EventHub(),
      undecided: new Set(),
      dispatcher: undefined,
      catalog: this.catalog,
      nearest: (name) => nearestNames(name, this.catalog.names(), NEAREST),
      view: (frame) => this.#viewFor(frame),
      callChild: (parent, name, input, options) => this.#callChild(parent, name, input, options),
    };
  }

  /**
   * The registry as the call sees it: without tools that it may not use. Only `getStats` counts all tools.
   */
  #viewFor(frame: CallFrame): RegistryView {
    const snapshot = this.snapshot();
    const isThere = (info: ToolInfo) => isWithinReach(info, frame);
    return {
      get: (name) => {
        const info = snapshot.get(name);
        return info !== undefined && isThere(info) ? info : undefined;
      },
      getAll: () => snapshot.getAll().filter(isThere),
      list: (category) => snapshot.list(category).filter(isThere),
      search(query, limit = USUAL_LIMIT) {
        return snapshot.search(query, limit, isThere);
      },
      prepareSearch: () => this.prepareSearch(),
      findByTag: (tag) => snapshot.findByTag(tag).filter(isThere),
      getStats: () => snapshot.getStats(),
      execute: (name, input) => this.#startChild(frame, name, input, noOptions),
    };
  }

  /**
   * For `ctx.call`: the promise rejects when the child fails, but a rejection that nobody handles does not
   * end the process.
   */
  #callChild(parent: CallFrame, name: string, input: unknown, options: CallOptions): Promise<ToolResult> {
    const child = parent.admitted === undefined ? this.#frame(name, input, options, parent) : undefined;
    if (child !== undefined && options.line !== undefined) child.flag().line = options.line;
    const answer =
      child === undefined
        ? this.#startChild(parent, name, input, options).then((result) => {
            if (result.error !== undefined) throw revivedError(result.error);
            return result;
          })
        : orThrow(child);
    answer.catch(() => {});
    return answer;
  }
}

async function orThrow(child: CallFrame): Promise<ToolResult> {
  const result = await startCall(child);
  if (child.error !== undefined) throw child.error;
  return result;
}

/** A caller in plain JavaScript may pass anything, even values that cannot be printed. */
function nameOf(name: unknown): string {
  try {
    return String(name);
  } catch {
    return "";
  }
}
