import { text } from "node:stream/consumers";
import { readSse } from "../../chat/model/completion.ts";
import type { ShownApproval, TurnEnd, TurnEvent } from "../../chat/turn/events.ts";
import type { Serving } from "../../rack/serve.ts";
import { LineReader } from "../chat/line-reader.ts";
import { StopKey } from "../chat/stop-key.ts";
import type { TurnKeys } from "../chat/turn-keys.ts";
import { TurnPrinter } from "../chat/turn-printer.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { findWorkspace } from "../find-workspace.ts";
import { ServerClient } from "../server-client.ts";
import { oneLine } from "../text/printable.ts";
import { renderTable } from "../text/render-table.ts";
import { configError, talkingLogger } from "../with-app.ts";

export interface ChatCommandOptions {
  readonly expert?: string;
  readonly model?: string;
  /** A conversation to go on with. */
  readonly session?: string;
}

/** `toolrack chat`: talks to a model that has the workspace's tools. */
export async function chat(cli: Cli, words: readonly string[], options: ChatCommandOptions): Promise<number> {
  const { client, serving } = await connect(cli);
  try {
    const about = await client.ask<{ configured: boolean; advice?: string }>("/api/chat");
    if (!about.configured) throw new CliError(about.advice ?? "", { code: "provider_missing" });
    const talk = new Conversation(cli, client, options);
    if (words.length > 0) return await talk.once(words.join(" "));
    if (!cli.interactive) return await talk.once(await text(process.stdin));
    return await talk.interact();
  } finally {
    await serving?.close();
  }
}

/** The server that runs on the workspace, or one of our own for as long as we talk. */
async function connect(cli: Cli): Promise<{ client: ServerClient; serving?: Serving }> {
  try {
    return { client: await ServerClient.find(cli) };
  } catch (thrown) {
    if (!(thrown instanceof CliError) || thrown.code !== "no_server") throw thrown;
  }
  const { serve } = await import("../../rack/serve.ts");
  const root = findWorkspace(cli.directory);
  const options = { logger: talkingLogger(cli), host: "127.0.0.1", port: 0 };
  const serving = await serve(root, options).catch((thrown) => {
    throw configError(thrown, root) ?? thrown;
  });
  return { client: await ServerClient.find(cli), serving };
}

const help = `/new begins another conversation, /tools lists the tools and what they cost, /exit ends.
Ctrl-C stops an answer.`;

class Conversation {
  readonly #cli: Cli;
  readonly #client: ServerClient;
  readonly #options: ChatCommandOptions;
  #session: string | undefined;
  /** The lines of a person; none where only one message is answered. */
  #lines: LineReader | undefined;
  /** Questions are asked one after the other: what is pressed is an answer to one of them. */
  #asking: Promise<void> = Promise.resolve();

  constructor(cli: Cli, client: ServerClient, options: ChatCommandOptions) {
    this.#cli = cli;
    this.#client = client;
    this.#options = options;
    this.#session = options.session;
  }

  /** One message and its answer. */
  async once(message: string): Promise<number> {
    if (message.trim() === "")
      throw usageError(`Say something: ${this.#cli.commandLine("chat 'What can you do?'")}`);
    const end = await this.#turn(message);
    return end.reason === "error"
      ? exitCodes.failure
      : end.reason === "stopped"
        ? exitCodes.interrupted
        : exitCodes.ok;
  }

  /** Until the person has had enough. */
  async interact(): Promise<number> {
    this.#cli.talk(help);
    const lines = new LineReader();
    this.#lines = lines;
    try {
      for (;;) {
        const line = (await lines.read(this.#cli.styleTalk("bold", "> ")))?.trim();
        if (line === undefined || line === "/exit") return exitCodes.ok;
        if (line !== "") await this.#follow(line).catch((thrown) => this.#complain(thrown));
      }
    } finally {
      lines.close();
    }
  }

  async #follow(line: string): Promise<void> {
    if (line === "/new") this.#session = undefined;
    else if (line === "/tools") await this.#listTools();
    else if (line.startsWith("/")) this.#cli.talk(help);
    else await this.#turn(line);
  }

  async #turn(message: string): Promise<TurnEnd> {
    const session = await this.#open();
    const stop = () => void this.#client.ask(`/api/chat/sessions/${session}/stop`, "POST").catch(() => {});
    const keys = this.#keys(stop);
    this.#cli.onInterrupt(stop);
    keys.listen();
    try {
      const { model } = this.#options;
      const body = { content: message, ...(model === undefined ? {} : { model }) };
      const response = await this.#client.open(`/api/chat/sessions/${session}/messages`, body);
      return await this.#show(response, keys);
    } finally {
      if (this.#lines === undefined) keys.release();
      else this.#lines.onStop = undefined;
      this.#cli.status.clear();
    }
  }

  #keys(stop: () => void): TurnKeys {
    if (this.#lines === undefined) return new StopKey(stop);
    this.#lines.onStop = stop;
    return this.#lines;
  }

  async #show(response: Response, keys: TurnKeys): Promise<TurnEnd> {
    const printer = new TurnPrinter(this.#cli);
    const questions = new Map<string, AbortController>();
    try {
      for await (const data of readSse(response.body!)) {
        const event: TurnEvent = JSON.parse(data);
        if (this.#cli.json) this.#cli.printJsonLine(event);
        else if (event.type !== "end") printer.print(event);
        if (event.type === "approval") this.#hear(event.approval, questions, printer, keys);
        if (event.type !== "end") continue;
        if (!this.#cli.json) printer.end(event.end);
        return event.end;
      }
    } catch (thrown) {
      throw serverEnded(thrown);
    } finally {
      // What is still asked has nobody left to hear the answer.
      for (const question of questions.values()) question.abort();
      await this.#asking;
    }
    throw serverEnded();
  }

  /** A question is asked here, unless somebody answers it elsewhere first. */
  #hear(
    approval: ShownApproval,
    questions: Map<string, AbortController>,
    printer: TurnPrinter,
    keys: TurnKeys,
  ): void {
    if (approval.state !== "pending") {
      questions.get(approval.id)?.abort();
      return;
    }
    if (questions.has(approval.id)) return;
    const answered = new AbortController();
    questions.set(approval.id, answered);
    if (!this.#cli.interactive || this.#cli.json) {
      const how = this.#cli.commandLine(`approvals approve ${approval.id}`);
      if (!this.#cli.json) printer.talk(`${oneLine(approval.toolName)} waits for an answer: ${how}`);
      return;
    }
    this.#asking = this.#asking
      .then(() => this.#ask(approval, answered.signal, printer, keys))
      .catch((thrown) => this.#complain(thrown));
  }

  async #ask(
    approval: ShownApproval,
    signal: AbortSignal,
    printer: TurnPrinter,
    keys: TurnKeys,
  ): Promise<void> {
    if (signal.aborted) return;
    const { askApproval } = await import("../call/ask-approval.ts");
    printer.talk("");
    this.#cli.status.clear();
    keys.release();
    try {
      const { id, ...shown } = approval;
      const request = { ...shown, dangerous: true, stage: "before", sessionID: "", caller: "chat" } as const;
      const decision = await askApproval(this.#cli, request, signal);
      if (signal.aborted) return;
      await this.#client
        .ask(`/api/approvals/${encodeURIComponent(id)}`, "POST", decision)
        .catch(unlessDecided);
    } finally {
      keys.listen();
    }
  }

  async #open(): Promise<string> {
    const { expert, model } = this.#options;
    this.#session ??= (
      await this.#client.ask<{ id: string }>("/api/chat/sessions", "POST", {
        ...(expert === undefined ? {} : { expert }),
        ...(model === undefined ? {} : { model }),
      })
    ).id;
    return this.#session;
  }

  async #listTools(): Promise<void> {
    const { expert } = this.#options;
    const query = expert === undefined ? "" : `?expert=${encodeURIComponent(expert)}`;
    const { tools, tokens, budget } = await this.#client.ask<{
      tools: { name: string; tokens: number; offered: boolean }[];
      tokens: number;
      budget: number;
    }>(`/api/chat/tools${query}`);
    const rows = tools.map(({ name, tokens: cost, offered }) => [
      name,
      String(cost),
      offered ? "offered" : "by search",
    ]);
    this.#cli.print(
      renderTable(rows, { head: ["TOOL", "TOKENS", ""], columns: this.#cli.columns, flexible: 0 }).join("\n"),
    );
    this.#cli.talk(`${tokens} tokens of definitions; the budget is ${budget} (chat.toolBudget).`);
  }

  #complain(thrown: unknown): void {
    this.#cli.status.clear();
    this.#cli.talk(`error: ${oneLine(thrown instanceof Error ? thrown.message : String(thrown))}`);
  }
}

function serverEnded(cause?: unknown): CliError {
  const details = cause === undefined ? {} : { details: { cause: String(cause) } };
  return new CliError("The server ended in the middle of the answer. Ask again once it runs.", {
    code: "no_server",
    ...details,
  });
}

/** Stopping the turn, or somebody else, was faster. */
function unlessDecided(thrown: unknown): void {
  if (!(thrown instanceof CliError) || thrown.code !== "approval_decided") throw thrown;
}
