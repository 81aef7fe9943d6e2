import type { Logger, ToolContext, ToolInfo, ToolRegistry, ToolResult } from "@toolrack/core";
import { hashValue } from "@toolrack/core/internal";
import { findGrant, type Grant, isExpired, masterGrant } from "../access/index.ts";
import {
  type ApprovalInbox,
  type CallBook,
  type Calls,
  isMetaTool,
  ownServer,
  runToolName,
} from "../calls/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { Store, StoredCall } from "../store/index.ts";
import { endOf, type PastCall, pastCalls, type RunRecords } from "./replay.ts";
import { CodeRun, type RunOutcome, type RunParts } from "./run.ts";

/** What runs need in order to go on in another process. */
export interface DurableParts {
  readonly store: Pick<Store, "calls" | "tokens" | "approvals">;
  readonly calls: () => Calls | undefined;
  readonly approvals: ApprovalInbox;
  readonly book: CallBook;
  readonly logger: Logger;
  /** Returns which tools an expert has. Undefined when there is no such expert. */
  readonly expertOf: (name: string) => ((tool: ToolInfo) => boolean) | undefined;
  /** Milliseconds for which a run that waits for people keeps its worker. */
  readonly suspendAfter?: number;
}

/** A run that was interrupted longer ago does not go on: nobody expects it any more. */
const LONGEST_PAUSE = 7 * 24 * 60 * 60_000;
const PAGE = 500;

/** Whether an interrupted run can go on: the store has all of its code. */
export function canGoOn({ parameters: { code }, timestamp }: StoredCall): boolean {
  const isWhole = typeof code === "string" && code !== "" && !code.includes("[redacted]");
  return isWhole && Date.now() - timestamp < LONGEST_PAUSE;
}

/** The runs under way in this process. With a store, those that another process left are gone on with here. */
export class CodeRuns {
  readonly #registry: Pick<ToolRegistry, "subscribe" | "cancel" | "mask">;
  readonly #durable: DurableParts | undefined;
  readonly #runs = new Map<string, CodeRun>();
  /** The runs that another process began, until they begin here. */
  readonly #taken = new Map<string, StoredCall>();
  readonly #stops: (() => void)[] = [];
  #onIdle: () => void = () => {};

  constructor(registry: Pick<ToolRegistry, "subscribe" | "cancel" | "mask">, durable?: DurableParts) {
    this.#registry = registry;
    this.#durable = durable;
    const noteWaiting = registry.subscribe(
      (event) => {
        if (event.type !== "waiting" || this.#runs.size === 0) return;
        for (const run of this.#runs.values()) run.noteWaiting(event.callId, event.isWaiting);
      },
      ["waiting"],
    );
    this.#stops.push(noteWaiting);
    if (durable !== undefined)
      this.#stops.push(durable.approvals.addRepeater((callId) => this.#isDurable(callId)));
  }

  /** Runs the code of a call to its end. */
  async run(
    context: ToolContext<unknown>,
    given: Pick<RunParts, "sandbox" | "code" | "paths">,
  ): Promise<RunOutcome> {
    const { callId } = context;
    const taken = this.#taken.get(callId);
    this.#taken.delete(callId);
    const startedAt = this.#durable?.book.get(callId)?.timestamp ?? Date.now();
    // Before anything is awaited: a call that is cancelled meanwhile is no longer in the book.
    const records = this.#isRoot(callId) ? this.#records(callId) : undefined;
    const run = new CodeRun(context, {
      ...given,
      startedAt,
      records,
      past: taken === undefined ? new Map() : await this.#pastOf(taken),
      suspendAfter: this.#durable?.suspendAfter,
    });
    this.#runs.set(callId, run);
    const stop = this.#registry.subscribe(
      (event) => {
        if (event.type !== "record" || event.record.parentCallId !== callId) return;
        run.noteEnded(event.record.callId, endOf(event.record));
      },
      ["record"],
    );
    try {
      return await run.run();
    } finally {
      stop();
      this.#runs.delete(callId);
      if (this.#runs.size === 0) this.#onIdle();
    }
  }

  /** Goes on with runs that were taken over from dead processes. Never rejects. */
  async resume(runs: readonly StoredCall[]): Promise<void> {
    await Promise.all(
      runs.map((run) =>
        this.#resume(run).catch((error) =>
          this.#durable?.logger.warn(`The run ${run.callId} did not go on: ${reasonOf(error)}`),
        ),
      ),
    );
  }

  /**
   * Leaves the runs to the next process: to be called when the server stops, before questions are withdrawn. Runs that wait
   * for no person may end within `limit` milliseconds.
   */
  async leave(limit: number): Promise<void> {
    const isBusy = () => [...this.#runs.values()].some((run) => !run.isWaiting);
    if (isBusy())
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, limit);
        this.#onIdle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    for (const run of this.#runs.values()) if (this.#isRoot(run.callId)) this.#leaveRun(run);
    for (const stop of this.#stops) stop();
  }

  #leaveRun(run: CodeRun): void {
    const { approvals, book } = this.#durable ?? {};
    run.leave();
    for (const callId of [run.callId, ...(approvals?.leaveOpen(run.callId) ?? [])]) {
      const call = book?.get(callId);
      if (call !== undefined) call.isLeft = true;
    }
    this.#registry.cancel(run.callId, "the server is stopping; the code goes on when it is started again");
  }

  async #resume(call: StoredCall): Promise<void> {
    const { store, calls, expertOf } = this.#durable ?? {};
    const service = calls?.()?.service;
    if (store === undefined || service === undefined) return;
    const { callId, owner = "", caller, expert, sessionID, via, parameters, timestamp: begunAt } = call;
    const allow = expert === undefined ? undefined : expertOf?.(expert);
    const own = await grantOf(store, owner, caller);
    const isLost = own === undefined || isExpired(own) || (expert !== undefined && allow === undefined);
    // Without its caller's rights the run ends with a refusal, which its record tells.
    const grant: Grant = {
      ...(own ?? { ...masterGrant, admin: false, caller }),
      mayUse: (item) => isMetaTool(item.name) || (!isLost && (allow !== undefined || own!.mayUse(item))),
    };
    this.#taken.set(callId, call);
    await service.run({
      name: runToolName,
      input: parameters,
      grant,
      callId,
      begunAt,
      via,
      expert,
      ...(sessionID && { sessionID }),
      ...(allow && { allow: (tool: ToolInfo) => isMetaTool(tool.name) || allow(tool) }),
    });
    // The code may not have been run at all, for example because the rack has lost a tool that it names.
    if (!this.#taken.delete(callId)) return;
    const past = [...(await this.#pastOf(call)).values()];
    const waiting = past.filter(({ kind }) => kind === "waiting").map((one) => one.callId);
    await this.#records(callId)?.giveUp(waiting);
  }

  async #pastOf({ callId }: StoredCall): Promise<Map<string, PastCall>> {
    const calls = this.#durable?.store.calls;
    const records: StoredCall[] = [];
    let cursor: string | undefined;
    do {
      const page = await calls?.list({ parent: callId, limit: PAGE, ...(cursor && { cursor }) });
      records.push(...(page?.items ?? []));
      cursor = page?.next;
    } while (cursor !== undefined);
    return pastCalls(records.reverse());
  }

  #records(runId: string): RunRecords | undefined {
    const durable = this.#durable;
    if (durable === undefined) return undefined;
    const { store, approvals } = durable;
    return {
      read: async (callId) => {
        // A call that has just ended may not be stored yet.
        await durable.calls()?.recorder.flush();
        const call = await store.calls.get(callId);
        if (call === undefined) throw new Error(`The record of call ${callId} is gone.`);
        return wholeResult(call, store.calls);
      },
      async announce({ callId, tool, line }) {
        const { owner = "", sessionID = "" } = durable.book.get(runId) ?? {};
        await store.calls.claim({
          ...{ callId, parentCallId: runId, rootCallId: runId, depth: 1, owner, sessionID },
          ...{ toolName: tool.name, displayName: tool.displayName ?? tool.name },
          ...{ caller: `${runToolName}_${runId}`, timestamp: Date.now(), parameters: {} },
          ...(line > 0 && { line }),
        });
      },
      keep: async ({ callId, toolName, args, line, startedAt: timestamp, endedAt, result }) => {
        const { owner = "", sessionID = "" } = durable.book.get(runId) ?? {};
        const parameters = this.#registry.mask({ args });
        const duration = endedAt - timestamp;
        const record = {
          ...{
            callId,
            parentCallId: runId,
            depth: 1,
            sessionID,
            messageID: "",
            toolName,
            displayName: toolName,
          },
          ...{
            parameters,
            parametersHash: hashValue(parameters),
            timestamp,
            duration,
            runDuration: duration,
          },
          ...({ caller: `${runToolName}_${runId}`, status: result.error ? "error" : "completed" } as const),
          ...(result.error && { error: result.error }),
          ...(line > 0 && { flags: { line } }),
        };
        await store.calls.finished(record, this.#registry.mask(result), { owner, rootCallId: runId });
      },
      async giveUp(callIds) {
        if (callIds.length === 0) return;
        await durable.calls()?.recorder.flush();
        for (const callId of callIds) {
          const question = await store.approvals.ofCall(callId);
          const reason = "the code that asked took another way";
          if (question !== undefined)
            await approvals.answer(question.id, { decision: "deny", reason }, ownServer);
        }
        await store.calls.giveUp(callIds);
      },
      continueQuestion: (callId) => approvals.continueQuestion(callId),
    };
  }

  /** Only a call that a surface made goes on in another process: others are made again by the tool that makes them. */
  #isRoot(callId: string): boolean {
    return this.#durable?.book.get(callId)?.grant !== undefined;
  }

  #isDurable(callId: string): boolean {
    return this.#runs.has(callId) && this.#isRoot(callId);
  }
}

/** The grant by which the run was made. An empty owner is the operator, at the command line or with the master token. */
async function grantOf(
  { tokens }: Pick<Store, "tokens">,
  owner: string,
  caller: string,
): Promise<Grant | undefined> {
  if (owner === "") return { ...masterGrant, caller };
  return findGrant(tokens, (candidate) => candidate.caller === caller);
}

/** The result of a stored call with its whole text, of which a record may have only a part. */
async function wholeResult(
  { callId, result, resultSize, flags }: StoredCall,
  calls: Pick<Store["calls"], "readResult">,
): Promise<ToolResult> {
  if (result.content.length >= resultSize && flags?.truncated !== true) return result;
  const whole = await calls.readResult(callId, 0, Number.MAX_SAFE_INTEGER);
  return whole === undefined ? result : { ...result, content: whole.text };
}
