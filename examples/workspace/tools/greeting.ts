import { callToolHandler } from "../handler/ToolHandler.js";

// Contract 2: a schema, a default function that takes the request, and destroy. It calls another tool.
export const schema = {
  name: "greeting",
  description: "Greets somebody in a language of their choice.",
  type: "object",
  properties: {
    name: { type: "string", description: "Whom to greet." },
    language: { type: "string", enum: ["en", "zh", "fr"], default: "en", description: "How to greet." },
  },
  required: ["name"],
};

const greetings = { en: "Hello, {name}!", zh: "你好，{name}！", fr: "Bonjour, {name} !" };

interface GreetingRequest {
  params: { arguments: { name: string; language: keyof typeof greetings } };
}

export default async function greet(request: GreetingRequest) {
  const { name, language } = request.params.arguments;
  const text = greetings[language].replace("{name}", name);
  const statistics = await callToolHandler(
    { params: { name: "text_statistics", arguments: { text, locale: language } } },
    `greeting_${language}`,
  );
  const { characters } = statistics.structuredContent as { characters: number };
  return { content: [{ type: "text", text: `${text} (${characters})` }] };
}

export async function destroy() {
  // Timers, connections and files that the tool holds are let go here, before a new version takes its place.
}
