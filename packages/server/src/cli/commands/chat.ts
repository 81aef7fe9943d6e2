import type { ShownApproval, TurnEnd, TurnEvent } from "../../chat/index.ts";
import { readSse } from "../../chat/index.ts";
import { reasonOf } from "../../helpers/values.ts";
import type { Serving } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, isCliError, usageError } from "../cli-error.ts";
import { ServerClient } from "../server-client.ts";
import { oneLine } from "../text.ts";
import { findWorkspace, opening, talkingLogger } from "../workspace.ts";
import { LineReader, StopKey, type TurnKeys, TurnPrinter } from "./chat-terminal.ts";

export interface ChatCommandOptions {
  readonly expert?: string;
  readonly model?: string;
  /** The conversation to continue. */
  readonly session?: string;
}

/** `toolrack chat`: talks to a model that has the workspace's tools. */
export async function chat(cli: Cli, words: readonly string[], options: ChatCommandOptions): Promise<void> {
  const { client, serving } = await connect(cli);
  try {
    const about = await client.ask<{ configured: boolean; advice?: string }>("/api/chat");
    if (!about.configured) throw new CliError(about.advice ?? "", { code: "provider_missing" });
    const talk = new Conversation(cli, client, options);
    if (words.length > 0) await talk.once(words.join(" "));
    else if (cli.interactive) await talk.interact();
    else await talk.once(await cli.readInput());
  } finally {
    await serving?.close();
  }
}

/** Connects to the running server of the workspace, or starts one for this conversation. */
async function connect(cli: Cli): Promise<{ client: ServerClient; serving?: Serving }> {
  const running = await ServerClient.findIfAny(cli);
  if (running !== undefined) return { client: running };
  const { serve } = await import("../../rack/index.ts");
  const root = findWorkspace(cli);
  const options = { logger: talkingLogger(cli), host: "127.0.0.1", port: 0 };
  const serving = await opening(cli, root, () => serve(root, options));
  return { client: await ServerClient.find(cli), serving };
}

const help = `/new begins another conversation, /tools lists the tools and what they cost, /exit ends.
Ctrl-C stops an answer.`;

/** A running turn: its printer, its key reader, and its open questions by id. */
interface RunningTurn {
  readonly printer: TurnPrinter;
  readonly keys: TurnKeys;
  readonly questions: Map<string, AbortController>;
}

class Conversation {
  readonly #cli: Cli;
  readonly #client: ServerClient;
  readonly #options: ChatCommandOptions;
  #session: string | undefined;
  /** Reads the person's lines; undefined when only one message is sent. */
  #lines: LineReader | undefined;
  /** The current question. The next one waits for it, so that a key answers only one question. */
  #asking: Promise<void> = Promise.resolve();

  constructor(cli: Cli, client: ServerClient, options: ChatCommandOptions) {
    this.#cli = cli;
    this.#client = client;
    this.#options = options;
    this.#session = options.session;
  }

  /** Sends one message and prints the answer. */
  async once(message: string): Promise<void> {
    if (message.trim() === "")
      throw usageError(`Say something: ${this.#cli.commandLine("chat 'What can you do?'")}`);
    const { reason } = await this.#turn(message);
    if (reason === "error") this.#cli.exitCode = exitCodes.failure;
    if (reason === "stopped") this.#cli.exitCode = exitCodes.interrupted;
  }

  /** Answers lines until the person ends the conversation. */
  async interact(): Promise<void> {
    this.#cli.talk(help);
    const lines = new LineReader(this.#cli);
    this.#lines = lines;
    try {
      for (;;) {
        const line = (await lines.read(this.#cli.styleTalk("bold", "> ")))?.trim();
        if (line === undefined || line === "/exit") return;
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
    const keys = this.#lines ?? new StopKey(this.#cli, stop);
    if (this.#lines !== undefined) this.#lines.onStop = stop;
    this.#cli.onInterrupt(stop);
    keys.listen();
    try {
      // Members that are undefined are not sent, because JSON leaves them out.
      const body = { content: message, model: this.#options.model };
      const response = await this.#client.open(`/api/chat/sessions/${session}/messages`, body);
      return await this.#show(response, keys);
    } finally {
      if (this.#lines === undefined) keys.release();
      else this.#lines.onStop = undefined;
      this.#cli.status.clear();
    }
  }

  async #show(response: Response, keys: TurnKeys): Promise<TurnEnd> {
    const turn: RunningTurn = { printer: new TurnPrinter(this.#cli), keys, questions: new Map() };
    try {
      for await (const data of readSse(response.body!)) {
        const event: TurnEvent = JSON.parse(data);
        if (this.#cli.json) this.#cli.printJsonLine(event);
        else if (event.type !== "end") turn.printer.print(event);
        if (event.type === "approval") this.#handleApproval(event.approval, turn);
        if (event.type !== "end") continue;
        if (!this.#cli.json) turn.printer.end(event.end);
        return event.end;
      }
    } catch (thrown) {
      throw serverEnded(thrown);
    } finally {
      // Removes open questions from the screen, because the turn has ended.
      for (const question of turn.questions.values()) question.abort();
      await this.#asking;
    }
    throw serverEnded();
  }

  /** Asks the question here, unless it is answered elsewhere first. */
  #handleApproval(approval: ShownApproval, turn: RunningTurn): void {
    const { id, state, toolName } = approval;
    if (state !== "pending") {
      turn.questions.get(id)?.abort();
      return;
    }
    if (turn.questions.has(id)) return;
    const answered = new AbortController();
    turn.questions.set(id, answered);
    if (this.#cli.json) return;
    if (!this.#cli.interactive) {
      const how = this.#cli.commandLine(`approvals approve ${id}`);
      turn.printer.talk(`${oneLine(toolName)} waits for an answer: ${how}`);
      return;
    }
    this.#asking = this.#asking
      .then(() => this.#ask(approval, answered.signal, turn))
      .catch((thrown) => this.#complain(thrown));
  }

  async #ask(approval: ShownApproval, signal: AbortSignal, { printer, keys }: RunningTurn): Promise<void> {
    if (signal.aborted) return;
    const { askApproval } = await import("./approvals.ts");
    printer.talk("");
    this.#cli.status.clear();
    keys.release();
    try {
      const { id, ...shown } = approval;
      const request = { ...shown, dangerous: true, stage: "before", sessionID: "", caller: "chat" } as const;
      const decision = await askApproval(this.#cli, request, signal);
      if (signal.aborted) return;
      await this.#client.ask(`/api/approvals/${encodeURIComponent(id)}`, "POST", decision);
    } catch (thrown) {
      // The question was answered elsewhere, or the turn was stopped, in the meantime.
      if (!isCliError(thrown, "approval_decided")) throw thrown;
    } finally {
      keys.listen();
    }
  }

  async #open(): Promise<string> {
    const { expert, model } = this.#options;
    this.#session ??= (
      await this.#client.ask<{ id: string }>("/api/chat/sessions", "POST", { expert, model })
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
    this.#cli.table(["TOOL", "TOKENS", ""], rows, { flexible: 0 });
    this.#cli.talk(`${tokens} tokens of definitions; the budget is ${budget} (chat.toolBudget).`);
  }

  #complain(thrown: unknown): void {
    this.#cli.status.clear();
    this.#cli.talk(`error: ${oneLine(reasonOf(thrown))}`);
  }
}

function serverEnded(cause?: unknown): CliError {
  return new CliError("The server ended in the middle of the answer. Ask again once it runs.", {
    code: "no_server",
    details: cause === undefined ? undefined : { cause: String(cause) },
  });
}
