import { type ChatCompletionRequest, type FixtureResponse, LLMock } from "@copilotkit/aimock";

/** Answers a request of the rack as a model would. */
export type Script = (request: ChatCompletionRequest) => FixtureResponse;

/** A model server that says what it is told to, over the protocol of Chat Completions. */
export class ScriptedModel {
  readonly #mock: LLMock;

  private constructor(mock: LLMock) {
    this.#mock = mock;
  }

  static async start(script: Script = greetAndFail): Promise<ScriptedModel> {
    const mock = new LLMock({ port: 0, journalMaxEntries: 0 });
    await mock.start();
    mock.on({ predicate: () => true }, script, { chunkSize: 8 });
    return new ScriptedModel(mock);
  }

  /** The files that make it the model of a workspace. */
  files(): Record<string, string> {
    const models = ["model-a", "model-b"];
    const price = { input: 1_000, output: 2_000 };
    const config = { providers: { scripted: { baseURL: `${this.#mock.url}/v1`, models, price } } };
    return { "toolrack.config.js": `export default ${JSON.stringify(config)};\n` };
  }

  close(): Promise<void> {
    return this.#mock.stop();
  }
}

/** Greets with a tool, calls one that fails, and says so. */
function greetAndFail({ messages }: ChatCompletionRequest): FixtureResponse {
  const answered = messages.filter(({ role }) => role === "tool").length;
  if (answered > 0) return { content: "I greeted **Ada**. The other tool is down." };
  return {
    content: "I greet her first.",
    toolCalls: [
      { name: "hello_world", arguments: '{"name":"Ada"}' },
      { name: "flaky", arguments: "{}" },
    ],
  };
}
