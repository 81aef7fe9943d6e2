import { createOpenAI } from "@ai-sdk/openai";
import { Agent, tool as agentTool, OpenAIProvider, Runner, setTracingDisabled } from "@openai/agents";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  setTracingDisabled(true);
  rack = await ChatRack.start();
});
afterAll(() => rack[Symbol.asyncDispose]());

/** The model writes a note on the rack and asks the client in one answer; then it says the colour. */
function scriptColour(): void {
  rack.script((request) => {
    const brought = answersIn(request).some(({ content }) => String(content).includes("red"));
    if (!brought) return called(["write", { text: "note" }], ["ask_user", { question: "Which?" }]);
    return request.messages.at(-1)?.content === "And again?"
      ? { content: "Still red." }
      : { reasoning: "It is red.", content: "The red one." };
  });
}

/** What the model read of all calls. */
const lastAnswers = () => answersIn(rack.requests.at(-1)).map(({ content }) => content);
const titles = async (title: string) => {
  const { items } = await rack.ask("/api/chat/sessions?limit=500");
  return items.filter((one: { title: string }) => one.title === title).length;
};

describe("OpenAI Agents JS with nothing but the base URL", () => {
  const asked: string[] = [];
  const askUser = agentTool({
    name: "ask_user",
    description: "Asks the person at the client.",
    parameters: z.object({ question: z.string() }),
    execute: async ({ question }) => {
      asked.push(question);
      return "red";
    },
  });
  const runner = () =>
    new Runner({
      modelProvider: new OpenAIProvider({ apiKey: rack.serving.token, baseURL: `${rack.serving.url}/v1` }),
    });
  const agent = new Agent({ name: "helper", instructions: "Help.", model: "model-a", tools: [askUser] });

  it("runs the tools of both sides once, and goes on from its own history", async () => {
    for (const stream of [false, true] as const) {
      scriptColour();
      const before = rack.ran.length;
      const question = `Which one (${stream})?`;
      const result = stream
        ? await runner().run(agent, question, { stream: true })
        : await runner().run(agent, question);
      if ("completed" in result) await result.completed;
      expect(result.finalOutput).toBe("The red one.");
      expect(rack.ran.slice(before)).toEqual([{ name: "write", input: { text: "note" } }]);
      expect(lastAnswers()).toEqual(["wrote note", "red"]);
      const next = await runner().run(agent, [...result.history, { role: "user", content: "And again?" }]);
      expect(next.finalOutput).toBe("Still red.");
      // It sent its whole history each time; on the server this is one conversation, in which nothing is forgotten.
      expect(await titles(question)).toBe(1);
      expect(lastAnswers()).toEqual(["wrote note", "red"]);
    }
    expect(asked).toEqual(["Which?", "Which?"]);
  });

  it("follows the last response by its id", async () => {
    scriptColour();
    const result = await runner().run(agent, "Which, by id?");
    const next = await runner().run(agent, "And again?", { previousResponseId: result.lastResponseId! });
    expect(next.finalOutput).toBe("Still red.");
    expect(lastAnswers()).toEqual(["wrote note", "red"]);
  });

  it("gets an object of the asked type", async () => {
    rack.script((_request, at) => (at === 0 ? called(["add", { a: 2, b: 3 }]) : { content: '{"answer":5}' }));
    const counting = new Agent({
      name: "counter",
      model: "model-a",
      outputType: z.object({ answer: z.number() }),
    });
    expect((await runner().run(counting, "2 + 3?")).finalOutput).toEqual({ answer: 5 });
  });
});

describe("AI SDK's default provider with nothing but the base URL", () => {
  const model = () =>
    createOpenAI({ apiKey: rack.serving.token, baseURL: `${rack.serving.url}/v1` })("model-a");
  let asked = 0;
  const tools = {
    ask_user: tool({
      description: "Asks the person at the client.",
      inputSchema: z.object({ question: z.string() }),
      execute: async () => {
        asked++;
        return "red";
      },
    }),
  };

  it("runs the tools of both sides once, in one conversation", async () => {
    for (const stream of [false, true]) {
      scriptColour();
      const before = rack.ran.length;
      asked = 0;
      const prompt = `Which one, SDK (${stream})?`;
      const options = { model: model(), system: "Help.", prompt, tools, stopWhen: stepCountIs(5) };
      const result = stream ? streamText(options) : await generateText(options);
      if ("consumeStream" in result) await result.consumeStream();
      expect(await result.text).toBe("The red one.");
      expect(await result.reasoningText).toBe("It is red.");
      expect((await result.usage).totalTokens).toBeGreaterThan(0);
      expect(rack.ran.slice(before)).toEqual([{ name: "write", input: { text: "note" } }]);
      expect(asked).toBe(1);
      const messages = await result.responseMessages;
      const next = await generateText({
        model: model(),
        system: "Help.",
        messages: [{ role: "user", content: prompt }, ...messages, { role: "user", content: "And again?" }],
        tools,
      });
      expect(next.text).toBe("Still red.");
      expect(await titles(prompt)).toBe(1);
      expect(lastAnswers()).toEqual(["wrote note", "red"]);
    }
  });

  it("keeps nothing on the server when it is told so", async () => {
    scriptColour();
    const before = rack.ran.length;
    const { text } = await generateText({
      model: model(),
      prompt: "Which one, unstored?",
      tools,
      stopWhen: stepCountIs(5),
      providerOptions: { openai: { store: false } },
    });
    expect(text).toBe("The red one.");
    expect(rack.ran.length - before).toBe(1);
    expect(lastAnswers()).toEqual(["wrote note", "red"]);
    expect(await titles("Which one, unstored?")).toBe(0);
  });

  it("gets an object of the asked schema", async () => {
    rack.script((_request, at) => (at === 0 ? called(["add", { a: 2, b: 3 }]) : { content: '{"answer":5}' }));
    const schema = z.object({ answer: z.number() });
    const options = { model: model(), prompt: "2 + 3?", output: Output.object({ schema }) };
    expect((await generateText(options)).output).toEqual({ answer: 5 });
  });

  it("does not run a tool again when the provider fails behind it", async () => {
    for (const stream of [false, true]) {
      rack.script((_request, at) =>
        at === 0
          ? called(["write", { text: "acted" }])
          : { error: { message: "No more.", type: "server_error" }, status: 400 },
      );
      const before = rack.ran.length;
      const options = { model: model(), prompt: `Write (${stream}).` };
      const result = stream ? streamText(options) : await generateText(options);
      expect(await result.text).toContain("No more.");
      expect(rack.ran.slice(before)).toHaveLength(1);
    }
  });
});
