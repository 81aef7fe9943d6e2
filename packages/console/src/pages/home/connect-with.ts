export const clients = [
  "claude-code",
  "claude-desktop",
  "cursor",
  "vscode",
  "codex",
  "openai",
  "curl",
] as const;
export type Client = (typeof clients)[number];

export const clientNames: Readonly<Record<Client, string>> = {
  "claude-code": "Claude Code",
  "claude-desktop": "Claude Desktop",
  cursor: "Cursor",
  vscode: "VS Code",
  codex: "Codex",
  openai: "OpenAI SDK",
  curl: "curl",
};

export interface Server {
  readonly url: string;
  /** The workspace's folder, where the server tells it. */
  readonly workspace: string;
}

/** What a person copies to connect a client. The token is named, never shown: these texts are made to be shared. */
export function connectWith(client: Client, { url, workspace }: Server): string {
  const headers = (token: string) => ({ Authorization: `Bearer ${token}` });
  switch (client) {
    case "claude-code":
      return `claude mcp add --transport http --header "Authorization: Bearer $(cat ${workspace}/.toolrack/token)" toolrack ${url}/mcp`;
    case "claude-desktop":
      // It starts its servers itself and takes no address.
      return json({
        mcpServers: { toolrack: { command: "npx", args: ["toolrack", "mcp", "--dir", workspace] } },
      });
    case "cursor":
      return json({ mcpServers: { toolrack: { url: `${url}/mcp`, headers: headers(envVariable) } } });
    case "vscode":
      return json({
        inputs: [
          { type: "promptString", id: "toolrack-token", description: "Toolrack token", password: true },
        ],
        servers: { toolrack: { type: "http", url: `${url}/mcp`, headers: headers(inputVariable) } },
      });
    case "codex":
      return ["[mcp_servers.toolrack]", `url = "${url}/mcp"`, 'bearer_token_env_var = "TOOLRACK_TOKEN"'].join(
        "\n",
      );
    case "openai":
      return [
        'import OpenAI from "openai";',
        "",
        `const rack = (path, body) => fetch("${url}" + path, {`,
        "  method: body ? 'POST' : 'GET',",
        "  headers: { Authorization: 'Bearer ' + process.env.TOOLRACK_TOKEN, 'Content-Type': 'application/json' },",
        "  body: body && JSON.stringify(body),",
        "}).then((answer) => answer.json());",
        "",
        'const messages = [{ role: "user", content: "What can you do?" }];',
        'const tools = await rack("/openai/tools");',
        'const { choices: [{ message }] } = await new OpenAI().chat.completions.create({ model: "gpt-5", messages, tools });',
        'if (message.tool_calls) messages.push(message, ...(await rack("/openai/tool-calls", message)));',
      ].join("\n");
    case "curl":
      return `curl -H "Authorization: Bearer $(cat ${workspace}/.toolrack/token)" ${url}/api/tools`;
  }
}

/** Where the text goes. */
export const clientFiles: Readonly<Partial<Record<Client, string>>> = {
  "claude-desktop": "claude_desktop_config.json",
  cursor: ".cursor/mcp.json",
  vscode: ".vscode/mcp.json",
  codex: "~/.codex/config.toml",
};

// Placeholders that the clients fill in themselves; they are no template strings of ours.
const envVariable = "$" + "{env:TOOLRACK_TOKEN}";
const inputVariable = "$" + "{input:toolrack-token}";

function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2);
}
