import { resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import { masterGrant } from "../access/index.ts";
import type { ApprovalInbox, Approver } from "../calls/index.ts";
import type { ChatService, ToolsService } from "../chat/index.ts";
import type { App } from "./app.ts";

/** Conversations with models on a workspace that this process has opened. */
export interface OpenedChat extends AsyncDisposable {
  readonly app: App;
  readonly chat: ChatService;
  /** The same as `chat.tools`. */
  readonly tools: ToolsService;
  /** Where questions of dangerous tools wait for an answer. */
  readonly approvals: ApprovalInbox;
  /** Somebody who answers there with the rights of the owner. The name is kept with the answer. */
  readonly approver: (name: string) => Approver;
  close(): Promise<void>;
}

/** Trouble goes to standard error; what is only worth knowing is left to programs that ask for it. */
const quiet: Logger = { debug() {}, info() {}, warn: console.error, error: console.error };
/** How long calls may go on when it is closed, in milliseconds. */
const DRAIN = 2_000;

/**
 * Opens a workspace for a program that talks to models itself, without a server. The program is its owner: what it does
 * not say for whom, it does with everything in reach. Leaves nothing open when it rejects.
 */
export async function openChatService(
  directory: string,
  { logger = quiet }: { readonly logger?: Logger } = {},
): Promise<OpenedChat> {
  // Most who import this package only define something, and need not wait for all of it.
  const [{ openRack }, { openChat }] = await Promise.all([import("./rack.ts"), import("./chat.ts")]);
  // What was opened last is closed first.
  const opened = new AsyncDisposableStack();
  try {
    const rack = await openRack(resolve(directory), { logger, watch: false }, opened);
    const { app, store, approvals, calls, mcp, secrets } = rack;
    opened.defer(() => calls.close(DRAIN));
    opened.defer(() => approvals.stop());
    opened.defer(async () => mcp.close());
    const chat = await openChat({ app, store, approvals, calls, secrets, logger });
    // Before questions are withdrawn: a turn that waits for an answer goes on at the next start.
    opened.defer(() => chat.close());
    const close = () => opened.disposeAsync();
    const approver = (name: string): Approver => ({ name, grant: masterGrant });
    return { app, chat, tools: chat.tools, approvals, approver, close, [Symbol.asyncDispose]: close };
  } catch (thrown) {
    await opened.disposeAsync();
    throw thrown;
  }
}
