export interface WantedCall {
  readonly tool: string;
  readonly args: unknown;
  readonly url: string;
}

export const copyKinds = ["curl", "cli", "mcp", "openai"] as const;
export type CopyKind = (typeof copyKinds)[number];

/** The same call in other words. No token is ever in them: they are made to be shared. */
export function copyAs(kind: CopyKind, call: WantedCall): string {
  const { tool, args, url } = call;
  const json = JSON.stringify(args);
  switch (kind) {
    case "curl":
      return [
        `curl -s ${url}/api/tools/${encodeURIComponent(tool)}/calls \\`,
        '  -H "Authorization: Bearer $(cat .toolrack/token)" \\',
        "  -H 'Content-Type: application/json' \\",
        `  -d ${quote(JSON.stringify({ arguments: args }))}`,
      ].join("\n");
    case "cli":
      return `npx toolrack call ${tool}${json === "{}" ? "" : ` --args ${quote(json)}`}`;
    case "mcp":
      return JSON.stringify(
        { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool, arguments: args } },
        undefined,
        2,
      );
    case "openai":
      return JSON.stringify(
        {
          role: "assistant",
          tool_calls: [{ id: "call_1", type: "function", function: { name: tool, arguments: json } }],
        },
        undefined,
        2,
      );
  }
}

/** A text as one word of a shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
