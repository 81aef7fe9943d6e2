import type { InternalTool } from "../../calls/index.ts";
import { isSafeVariable } from "./support/commands.ts";

const HIDDEN = "[set, hidden]";

interface EnvironmentArguments {
  readonly name?: string;
  readonly prefix?: string;
}

export default {
  name: "env",
  description: `Tells which environment variables the server has. Lists their names, or looks up one by \`name\` or several by \`prefix\`. Values are shown only for variables that never hold secrets (PATH, HOME, LANG, LC_*, TZ, TMPDIR, USER, SHELL, TERM); all others read ${HIDDEN}. Use it to check that something is configured, not to read credentials.`,
  inputSchema: {
    type: "object",
    properties: {
      name: { type: "string", minLength: 1, description: "One variable, exactly as it is spelt." },
      prefix: {
        type: "string",
        description: "Only variables whose names begin with this, for example NODE_.",
      },
    },
    additionalProperties: false,
  },
  outputSchema: {
    type: "object",
    properties: {
      variables: {
        type: "array",
        items: {
          type: "object",
          properties: {
            name: { type: "string" },
            value: { type: ["string", "null"], description: "Null when it is hidden." },
          },
          required: ["name", "value"],
        },
      },
    },
    required: ["variables"],
  },
  handler({ name, prefix }: EnvironmentArguments) {
    const variables = Object.keys(process.env)
      .filter((key) => (name === undefined ? key.startsWith(prefix ?? "") : key === name))
      .sort()
      .map((key) => ({ name: key, value: isSafeVariable(key) ? (process.env[key] ?? "") : null }));
    const lines = variables.map((variable) => `${variable.name}=${variable.value ?? HIDDEN}`);
    const text = lines.length > 0 ? lines.join("\n") : nothingFound(name, prefix);
    return { content: [{ type: "text", text }], structuredContent: { variables } };
  },
  metadata: { category: "system", readOnly: true, idempotent: true, tags: ["environment", "configuration"] },
} satisfies InternalTool;

function nothingFound(name: string | undefined, prefix: string | undefined): string {
  if (name !== undefined) return `${name} is not set.`;
  return prefix ? `No variable begins with ${prefix}.` : "No variables are set.";
}
