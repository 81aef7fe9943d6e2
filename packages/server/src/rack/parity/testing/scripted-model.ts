import { LLMock } from "@copilotkit/aimock";
import type { SampleCall } from "./sample-call.ts";

/** The fields of a chat message that the model reads. */
interface Message {
  readonly role: string;
  readonly content?: string | readonly { readonly image_url?: { readonly url: string } }[] | null;
}

/** A fake model that makes one given call in each conversation, and remembers the result that it is told. */
export class ScriptedModel {
  readonly #mock = new LLMock({ port: 0, journalMaxEntries: 1 });
  readonly #expected = new Map<string, SampleCall>();
  readonly #told = new Map<string, readonly Message[]>();

  static async start(): Promise<ScriptedModel> {
    const model = new ScriptedModel();
    model.#mock.on({ predicate: () => true }, (request) => {
      const messages = request.messages as readonly Message[]; // The chat sends messages of this shape.
      const topic = String(messages[0]?.content);
      const call = model.#expected.get(topic);
      if (call === undefined) return { content: "What is this about?" };
      if (messages.some(({ role }) => role === "tool")) {
        model.#told.set(topic, messages);
        return { content: "done" };
      }
      const text = typeof call.args === "string" ? call.args : JSON.stringify(call.args);
      return { toolCalls: [{ name: call.tool, arguments: text }] };
    });
    await model.#mock.start();
    return model;
  }

  get url(): string {
    return `${this.#mock.url}/v1`;
  }

  /** Makes the model answer a conversation that begins with `topic` by making this call. */
  expect(topic: string, call: SampleCall): void {
    this.#expected.set(topic, call);
  }

  /** The result of its call that the model was told in the conversation about `topic`. */
  told(topic: string): { text: string; urls: string[] } {
    const messages = this.#told.get(topic) ?? [];
    const answers = messages.filter(({ role }) => role === "tool");
    if (answers.length !== 1) throw new Error(`${topic}: ${answers.length} answers to one call.`);
    const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
    const urls = parts.flatMap(({ image_url }) => (image_url === undefined ? [] : [image_url.url]));
    return { text: String(answers[0]!.content), urls };
  }

  stop(): Promise<unknown> {
    return this.#mock.stop();
  }
}
