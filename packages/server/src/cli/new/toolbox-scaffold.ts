import type { Scaffold } from "./scaffold.ts";

export function toolboxScaffold(name: string): Scaffold {
  const text = `export const schema = {
  name: "${name}",
  description: "Greets somebody by name. Say here what the tool does and when to use it.",
  type: "object",
  properties: {
    name: { type: "string", description: "Whom to greet." },
  },
  required: ["name"],
  outputSchema: {
    type: "object",
    properties: {
      content: {
        type: "array",
        items: { type: "object", properties: { type: { type: "string" }, text: { type: "string" } } },
      },
      isError: { type: "boolean" },
    },
  },
};

interface Request {
  readonly params: { readonly arguments: { readonly name: string } };
}

export default async function (request: Request) {
  const { name } = request.params.arguments;
  return { content: [{ type: "text", text: \`Hello, \${name}!\` }] };
}

// Runs before a new version takes over: stop timers, close connections.
export async function destroy() {}
`;
  return { file: `${name}.ts`, text, tool: name };
}
