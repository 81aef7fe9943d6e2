import { resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import { masterGrant } from "../access/index.ts";
import type { ApprovalInbox, Approver } from "../calls/index.ts";
import type { ChatService, ToolsService } from "../chat/index.ts";
import type { App } from "./app.ts";

export interface OpenedChat extends AsyncDisposable {
  readonly app: App;
  readonly chat: ChatService;
  /** The same as `chat.tools`. */
  readonly tools: ToolsService;
  readonly approvals: ApprovalInbox;
  /** Makes an approver with the owner's rights. The name is stored with each answer. */
  readonly approver: (name: string) => Approver;
  close(): Promise<void>;
}

/** Writes warnings and errors to standard error, and nothing else. */
const quiet: Logger = { debug() {}, info() {}, warn: console.error, error: console.error };
/** Milliseconds that running calls may go on after `close`. */
const DRAIN = 2_000;

/**
 * Opens a workspace for a program that uses models without a server. A message is answered by `chat.handleStream`, which
 * takes each call that the model asks for to `chat.handleRunToolCall`, and that to `tools.runTools`. The program has the
 * owner's rights unless it names a grant. Leaves nothing open when it rejects.
 */
export async function openChatService(
  directory: string,
  { logger = quiet }: { readonly logger?: Logger } = {},
): Promise<OpenedChat> {
  // Loaded on first use: most programs import this package only to define tools.
  const [{ openRack }, { openChat }] = await Promise.all([import("./rack.ts"), import("./open-chat.ts")]);
  // Closes in reverse order what was opened.
  const opened = new AsyncDisposableStack();
  try {
    const rack = await openRack(resolve(directory), { logger, watch: false }, opened);
    const { app, store, approvals, calls, mcp, values } = rack;
    opened.defer(() => calls.close(DRAIN));
    opened.defer(() => approvals.stop());
    opened.defer(() => mcp.close());
    const chat = await openChat({ app, store, approvals, calls, secrets: values.secrets, logger });
    // The chat is closed before questions are withdrawn, so that a turn that waits for an answer goes on at
    // the next start.
    opened.defer(() => chat.close());
    const close = () => opened.disposeAsync();
    const approver = (name: string): Approver => ({ name, grant: masterGrant });
    return { app, chat, tools: chat.tools, approvals, approver, close, [Symbol.asyncDispose]: close };
  } catch (thrown) {
    await opened.disposeAsync();
    throw thrown;
  }
}
