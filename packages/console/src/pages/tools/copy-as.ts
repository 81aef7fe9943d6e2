import { asJson, shellWord, shellWords } from "../../text/index.ts";

export interface WantedCall {
  readonly tool: string;
  readonly args: unknown;
  readonly url: string;
  /** The workspace's folder, if the server tells it; otherwise the current folder. */
  readonly workspace?: string | undefined;
  readonly program?: readonly string[] | undefined;
}

export const copyKinds = ["curl", "cli", "mcp", "openai"] as const;
export type CopyKind = (typeof copyKinds)[number];

/** The call as a command or code to share, so it never contains a token. */
export function copyAs(kind: CopyKind, call: WantedCall): string {
  const { tool, args, url, workspace, program = ["toolrack"] } = call;
  const json = JSON.stringify(args);
  switch (kind) {
    case "curl": {
      const file = shellWord(workspace === undefined ? ".toolrack/token" : `${workspace}/.toolrack/token`);
      return [
        `curl -s ${url}/api/tools/${encodeURIComponent(tool)}/calls \\`,
        `  -H "Authorization: Bearer $(cat ${file})" \\`,
        "  -H 'Content-Type: application/json' \\",
        `  -d ${shellWord(JSON.stringify({ arguments: args }))}`,
      ].join("\n");
    }
    case "cli":
      return shellWords([
        ...program,
        "call",
        tool,
        ...(json === "{}" ? [] : ["--args", json]),
        ...(workspace === undefined ? [] : ["--dir", workspace]),
      ]);
    case "mcp": {
      const params = { name: tool, arguments: args };
      return asJson({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    }
    case "openai": {
      const call = { id: "call_1", type: "function", function: { name: tool, arguments: json } };
      return asJson({ role: "assistant", tool_calls: [call] });
    }
  }
}
