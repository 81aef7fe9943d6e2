import { join, resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import { masterGrant, openValues, type Secrets } from "../access/index.ts";
import { type ApprovalInbox, type Approver, type Calls, metaTools, searchToolName } from "../calls/index.ts";
import { ChatService, Providers, readResultTool, type ToolsService } from "../chat/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { Store } from "../store/index.ts";
import type { App } from "./app.ts";
import { ORPHAN_CHECK_SECONDS, openRack } from "./rack.ts";

export interface OpenChatParts {
  readonly app: Pick<App, "registry" | "config" | "skills">;
  readonly store: Store;
  readonly approvals: ApprovalInbox;
  readonly calls: Pick<Calls, "service">;
  readonly secrets?: Pick<Secrets, "get">;
  readonly logger: Logger;
}

/**
 * Opens the chat of a rack. If a provider is configured, registers the tools that help a model: one that reads long
 * results, and those that find and call other tools. Resumes turns of dead processes.
 */
export async function openChat(parts: OpenChatParts): Promise<ChatService> {
  const { store, approvals, calls, secrets, logger } = parts;
  const { registry, config, skills } = parts.app;
  const providers = openProviders(parts.app, secrets);
  const chat = new ChatService({
    registry,
    service: calls.service,
    store,
    approvals,
    providers,
    config: config.chat ?? {},
    experts: (name) => skills.experts.find(name),
    logger,
  });
  if (providers.isConfigured) {
    const missing = registry.get(searchToolName) === undefined ? metaTools(calls.service.searches) : [];
    registry.apply({ put: [readResultTool(store.calls), ...missing] });
  }
  const recover = async () => {
    await chat.recover();
    chat.follow(ORPHAN_CHECK_SECONDS);
  };
  // A turn that goes on may call tools of skills.
  if (skills.loading === undefined) await recover();
  else
    void skills.loading
      .then(recover)
      .catch((error) => logger.warn(`Turns of dead processes could not be taken up: ${reasonOf(error)}`));
  return chat;
}

/** The models of a workspace. */
function openProviders(
  { registry, config: { providers = {}, chat = {} } }: Pick<App, "registry" | "config">,
  secrets: Pick<Secrets, "get"> | undefined,
): Providers {
  return new Providers({
    providers,
    model: chat.model,
    models: chat.models,
    environment: process.env,
    readSecret: secrets && ((name) => secrets.get(name)),
    secretMask: () => registry.secretMask,
  });
}

/** The models of a workspace that no server serves. Its store is opened when a provider needs a secret. */
export function providersOf(app: App): Providers {
  const { workspace, store } = app;
  const directory = join(workspace.directory, ".toolrack");
  const get = async (name: string) =>
    (await openValues({ directory, store: await store() })).secrets.get(name);
  return openProviders(app, { get });
}

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
