import { asJson, shellWord } from "../../text/index.ts";

export const clientNames = {
  "claude-code": "Claude Code",
  "claude-desktop": "Claude Desktop",
  cursor: "Cursor",
  vscode: "VS Code",
  codex: "Codex",
  openai: "OpenAI SDK",
  curl: "curl",
} as const;
export type Client = keyof typeof clientNames;
export const clients = Object.keys(clientNames) as Client[]; // A constant has no other keys.

export interface Server {
  readonly url: string;
  readonly workspace: string;
  readonly program?: readonly string[] | undefined;
}

export interface Connection {
  /** Texts to copy, each with the file that it belongs in; a text without a file is a shell command. */
  readonly steps: readonly { readonly file?: string; readonly text: string }[];
  readonly link?: string;
}

export const TOKEN = "trk_…";

/**
 * What a person copies to connect a client. The token is the client's own: with the operator's, an agent
 * could approve its own calls.
 */
export function connectWith(client: Client, server: Server, token?: string): Connection {
  const { url, workspace, program = ["toolrack"] } = server;
  const headers = { Authorization: `Bearer ${token ?? TOKEN}` };
  const header = `Authorization: Bearer ${token ?? TOKEN}`;
  const address = `${url}/mcp`;
  switch (client) {
    case "claude-code":
      // Name and address come first, because the header option takes all following words.
      return oneStep(`claude mcp add --transport http toolrack ${address} --header ${shellWord(header)}`);
    case "claude-desktop": {
      // Claude Desktop starts servers without a shell and the shell's PATH, and accepts no server address.
      const [command = "toolrack", ...args] = program;
      const entry = { command, args: [...args, "mcp", "--dir", workspace] };
      return oneStep(asJson({ mcpServers: { toolrack: entry } }), "claude_desktop_config.json");
    }
    case "cursor": {
      const entry = { url: address, headers };
      const link = token === undefined ? {} : { link: cursorLink(entry) };
      return { ...oneStep(asJson({ mcpServers: { toolrack: entry } }), "~/.cursor/mcp.json"), ...link };
    }
    case "vscode": {
      const input = {
        type: "promptString",
        id: "toolrack-token",
        description: "Toolrack token",
        password: true,
      };
      const entry = { type: "http", url: address, headers: { Authorization: `Bearer ${inputVariable}` } };
      const link = { link: vscodeLink({ name: "toolrack", ...entry, headers }) };
      const text = asJson({ inputs: [input], servers: { toolrack: entry } });
      return { ...oneStep(text, ".vscode/mcp.json"), ...(token === undefined ? {} : link) };
    }
    case "codex": {
      // JSON strings are valid TOML strings.
      const table = `{ Authorization = ${JSON.stringify(headers.Authorization)} }`;
      const text = `[mcp_servers.toolrack]\nurl = ${JSON.stringify(address)}\nhttp_headers = ${table}`;
      return oneStep(text, "~/.codex/config.toml");
    }
    case "openai":
      return {
        steps: [
          { file: "agent.mjs", text: openaiExample(url) },
          { text: `npm install openai\nexport TOOLRACK_TOKEN=${shellWord(token ?? TOKEN)}\nnode agent.mjs` },
        ],
      };
    case "curl":
      return oneStep(`curl -H ${shellWord(header)} ${url}/api/tools`);
  }
}

function oneStep(text: string, file?: string): Connection {
  return { steps: [file === undefined ? { text } : { file, text }] };
}

export function needsToken(client: Client): boolean {
  return client !== "claude-desktop";
}

// VS Code fills in this placeholder; it is not a template string.
const inputVariable = "$" + "{input:toolrack-token}";

function cursorLink(entry: object): string {
  const config = encodeURIComponent(btoa(JSON.stringify(entry)));
  return `cursor://anysphere.cursor-deeplink/mcp/install?name=toolrack&config=${config}`;
}

function vscodeLink(entry: object): string {
  return `vscode:mcp/install?${encodeURIComponent(JSON.stringify(entry))}`;
}

/** The name, with a number added if it is taken. */
export function unusedName(name: string, taken: readonly string[]): string {
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name} ${number}`)) number++;
  return `${name} ${number}`;
}

/** The code of a complete agent: it asks the model, runs the model's calls, and repeats until it is done. */
export function openaiExample(url: string): string {
  return `import OpenAI from "openai";

const rack = async (path, body) => {
  const answer = await fetch("${url}" + path, {
    method: body ? "POST" : "GET",
    headers: { Authorization: "Bearer " + process.env.TOOLRACK_TOKEN, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

const openai = new OpenAI();
const tools = await rack("/openai/tools");
const messages = [{ role: "user", content: process.argv[2] ?? "What can you do?" }];

for (let turn = 0; turn < 20; turn++) {
  const model = process.env.OPENAI_MODEL ?? "gpt-5";
  const { choices } = await openai.chat.completions.create({ model, messages, tools });
  const { message } = choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) break;
  messages.push(...(await rack("/openai/tool-calls", message)));
}
console.log(messages.at(-1).content);`;
}
