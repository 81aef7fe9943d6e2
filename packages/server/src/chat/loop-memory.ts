import { type RecalledCall, recallCalls } from "@toolrack/core/internal";
import type { StoredCall } from "../store/index.ts";
import type { ChatServices } from "./services.ts";

/** How many calls loop detection looks back. */
const MOST = 24;

/** Restores the memory of loop detection from the call records, when a session was in another process before. */
export class LoopMemory {
  readonly #services: Pick<ChatServices, "registry" | "store" | "logger">;

  constructor(services: Pick<ChatServices, "registry" | "store" | "logger">) {
    this.#services = services;
  }

  /** Restores exactly these calls, oldest first. Never rejects. */
  async restore(sessionID: string, owner: string, callIds: readonly string[]): Promise<void> {
    const { registry, logger } = this.#services;
    try {
      const calls = await Promise.all(callIds.slice(-MOST).map((callId) => this.#recall(callId)));
      const known = calls.filter((call) => call !== undefined);
      registry.restoreLoopState(sessionID, recallCalls(known), owner);
    } catch (error) {
      // Loop detection is a guard and must not make the conversation fail.
      logger.warn("Loop detection does not remember a conversation that goes on:", error);
    }
  }

  /** Restores the last calls of the session. Never rejects. */
  async restoreAll(sessionID: string, owner: string): Promise<void> {
    const { store, logger } = this.#services;
    try {
      const { items } = await store.calls.list({ session: sessionID, top: true, limit: MOST });
      await this.restore(sessionID, owner, items.map(({ callId }) => callId).reverse());
    } catch (error) {
      logger.warn("Loop detection does not remember a conversation that goes on:", error);
    }
  }

  async #recall(callId: string): Promise<RecalledCall | undefined> {
    const { registry, store } = this.#services;
    const record = await store.calls.get(callId);
    if (record === undefined || record.outcome === "running" || record.outcome === "interrupted")
      return undefined;
    const result = await this.#wholeResult(record);
    return result && { record, result, metadata: registry.get(record.toolName)?.metadata ?? {} };
  }

  async #wholeResult({ callId, result, resultSize, flags }: StoredCall) {
    if (flags?.truncated !== true) return result;
    // The result may be stored on another node; then repeated results go unnoticed.
    const whole = await this.#services.store.calls.readResult(callId, 0, resultSize).catch(() => undefined);
    return whole && { ...result, content: whole.text };
  }
}
