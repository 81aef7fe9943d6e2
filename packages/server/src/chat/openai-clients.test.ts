import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { createOpenAI, type OpenAIProvider } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, type Model, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner } from "@openai/agents";
import { generateText, type LanguageModel, streamText } from "ai";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { answersIn, type ChatRack } from "./testing/chat-rack.fixture.ts";
import { type Json, ScriptedUpstream } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

/** Resolves to the text of the answer. Rejects like the client. */
type Ask = (baseURL: string, apiKey: string, content: string) => Promise<string>;

/** The clients as their users have them, with the retries that they make by themselves. */
const clients: Record<string, { whole: Ask; stream: Ask }> = {
  openai: {
    async whole(baseURL, apiKey, content) {
      const { completions } = new OpenAI({ baseURL, apiKey }).chat;
      const answer = await completions.create({ model: "model-a", messages: [{ role: "user", content }] });
      return answer.choices[0]?.message.content ?? "";
    },
    async stream(baseURL, apiKey, content) {
      const { completions } = new OpenAI({ baseURL, apiKey }).chat;
      const messages = [{ role: "user", content }] as const;
      const stream = await completions.create({ model: "model-a", messages: [...messages], stream: true });
      let text = "";
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
      return text;
    },
  },
  "openai, Responses": {
    async whole(baseURL, apiKey, input) {
      const { responses } = new OpenAI({ baseURL, apiKey });
      return (await responses.create({ model: "model-a", input })).output_text;
    },
    async stream(baseURL, apiKey, input) {
      const { responses } = new OpenAI({ baseURL, apiKey });
      return (await responses.stream({ model: "model-a", input }).finalResponse()).output_text;
    },
  },
  "AI SDK": aiSdk((openai) => openai.chat("model-a")),
  "AI SDK, Responses": aiSdk((openai) => openai("model-a")),
  LangChain: langChain(false),
  "LangChain, Responses": langChain(true),
  "OpenAI Agents": agents((client) => new OpenAIChatCompletionsModel(client, "model-a")),
  "OpenAI Agents, Responses": agents((client) => new OpenAIResponsesModel(client, "model-a")),
};

function aiSdk(modelOf: (openai: OpenAIProvider) => LanguageModel): { whole: Ask; stream: Ask } {
  return {
    async whole(baseURL, apiKey, prompt) {
      const model = modelOf(createOpenAI({ baseURL, apiKey }));
      return (await generateText({ model, prompt })).text;
    },
    async stream(baseURL, apiKey, prompt) {
      let failure: unknown;
      const { textStream } = streamText({
        model: modelOf(createOpenAI({ baseURL, apiKey })),
        prompt,
        onError: ({ error }) => {
          failure = error;
        },
      });
      let text = "";
      for await (const piece of textStream) text += piece;
      if (failure !== undefined) throw failure;
      return text;
    },
  };
}

function langChain(useResponsesApi: boolean): { whole: Ask; stream: Ask } {
  const modelOf = (baseURL: string, apiKey: string) =>
    new ChatOpenAI({ model: "model-a", apiKey, useResponsesApi, configuration: { baseURL } });
  return {
    async whole(baseURL, apiKey, content) {
      return (await modelOf(baseURL, apiKey).invoke(content)).text;
    },
    async stream(baseURL, apiKey, content) {
      let text = "";
      for await (const piece of await modelOf(baseURL, apiKey).stream(content)) text += piece.text;
      return text;
    },
  };
}

function agents(modelOf: (client: OpenAI) => Model): { whole: Ask; stream: Ask } {
  const open = (baseURL: string, apiKey: string) => ({
    runner: new Runner({ tracingDisabled: true }),
    agent: new Agent({ name: "Writer", model: modelOf(new OpenAI({ baseURL, apiKey })) }),
  });
  return {
    async whole(baseURL, apiKey, content) {
      const { runner, agent } = open(baseURL, apiKey);
      return (await runner.run(agent, content)).finalOutput ?? "";
    },
    async stream(baseURL, apiKey, content) {
      const { runner, agent } = open(baseURL, apiKey);
      const result = await runner.run(agent, content, { stream: true });
      let text = "";
      for await (const piece of result.toTextStream()) text += piece;
      await result.completed;
      return text;
    },
  };
}

/** Stands between a client and the rack, and breaks its connections. */
class BreakingProxy {
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  async start(port: number): Promise<string> {
    this.#server = createServer((client) => {
      const rack = connect(port, "127.0.0.1");
      for (const socket of [client, rack]) {
        this.#sockets.add(socket);
        socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
      }
      client.pipe(rack).pipe(client);
    });
    await new Promise<void>((resolve) => this.#server!.listen(0, "127.0.0.1", resolve));
    // A server that listens on a port has such an address.
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  break(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  stop(): void {
    this.break();
    this.#server?.close();
  }
}

/** What the provider does once the tool has run, as bytes on the wire. */
type Failure = "refuses the key" | "is busy" | "breaks off" | "answers";
let failure: Failure = "answers";
/** Called when the provider is asked after the tool has run; it answers when this resolves. */
let afterwards: () => unknown = () => {};
const upstream = new ScriptedUpstream();
const proxy = new BreakingProxy();
let rack: ChatRack;
let baseURL: string;

const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: "model-a", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

beforeAll(async () => {
  rack = await upstream.start(async (outgoing, _asked, request: Json) => {
    if (answersIn(request).length > 0) await afterwards();
    if (answersIn(request).length === 0) {
      const text = request.messages.at(-1).content;
      const written = JSON.stringify({ text });
      const call = { index: 0, id: "c1", type: "function", function: { name: "write", arguments: written } };
      outgoing.write(chunk({ role: "assistant", content: "Let me write." }));
      outgoing.end(`${chunk({ tool_calls: [call] })}${chunk({}, "tool_calls")}data: [DONE]\n\n`);
    } else if (failure === "refuses the key") {
      outgoing
        .writeHead(401, { "content-type": "application/json" })
        .end('{"error":{"message":"no such key"}}');
    } else if (failure === "is busy") {
      outgoing.writeHead(429, { "retry-after": "3600" }).end('{"error":{"message":"too many requests"}}');
    } else if (failure === "breaks off") {
      outgoing.write(chunk({ role: "assistant", content: "It is wri" }), () => outgoing.destroy());
    } else outgoing.end(`${chunk({ content: "It is written." })}${chunk({}, "stop")}data: [DONE]\n\n`);
  });
  baseURL = await proxy.start(Number(new URL(rack.serving.url).port));
});
afterEach(() => {
  rack.ran.length = 0;
  afterwards = () => {};
});
afterAll(async () => {
  proxy.stop();
  await upstream.stop();
});

describe.each(Object.keys(clients))("%s", (name) => {
  const client = clients[name]!;
  const forms = ["whole", "stream"] as const;

  it.each(
    forms.flatMap((form) =>
      (["refuses the key", "is busy", "breaks off"] as const).map((how) => [form, how] as const),
    ),
  )("%s: runs the tool once when the provider %s afterwards, and is told what failed", async (form, how) => {
    failure = how;
    const content = `${name} ${form} ${how}`;
    const text = await client[form](baseURL, rack.serving.token, content);
    expect(text).toContain("Let me write.");
    expect(text).toMatch(/\[The answer could not be finished: .*"scripted"/);
    expect(rack.ran).toEqual([{ name: "write", input: { text: content } }]);
  });

  it.each(
    forms.flatMap((form) =>
      (["while it runs", "while the provider answers"] as const).map((when) => [form, when] as const),
    ),
  )("%s: runs the tool once when the connection breaks %s", async (form, when) => {
    failure = "answers";
    const content = `${when === "while it runs" ? "hold " : ""}${name} ${form} ${when}`;
    const asked = Promise.withResolvers<void>();
    const answers = Promise.withResolvers<void>();
    afterwards = () => {
      asked.resolve();
      return answers.promise;
    };
    const ask = () => client[form](baseURL, rack.serving.token, content);
    // An application that asks again when its client does not.
    const answer = ask().catch(ask);
    await (when === "while it runs" ? rack.hold.started(content) : asked.promise);
    proxy.break();
    // What does not stream has time to come back. A stream is cancelled at once.
    if (form === "whole") {
      await new Promise((resolve) => setTimeout(resolve, 500));
      rack.hold.release(content);
      answers.resolve();
    }
    expect(await answer).toContain(form === "whole" ? "It is written." : "connection of this request closed");
    expect(rack.ran).toEqual([{ name: "write", input: { text: content } }]);
  });
});
