import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { copyAs } from "./copy-as.ts";

const call = {
  tool: "greeting",
  args: { name: "O'Brien $HOME `x`" },
  url: "http://127.0.0.1:7300",
  workspace: "/my dir/it's here",
  program: ["/opt/my node", "/opt/main.js"],
};

it("writes commands whose arguments survive a shell", () => {
  const words = (command: string) =>
    JSON.parse(
      execFileSync(
        "sh",
        [
          "-c",
          `show() { node -e 'console.log(JSON.stringify(process.argv.slice(1)))' -- "$@"; }; ${command}`,
        ],
        { encoding: "utf8" },
      ),
    );
  expect(words(`show ${copyAs("cli", call)}`)).toEqual([
    "/opt/my node",
    "/opt/main.js",
    "call",
    "greeting",
    "--args",
    JSON.stringify(call.args),
    "--dir",
    "/my dir/it's here",
  ]);
  const { workspace: _, program: __, ...bare } = call;
  expect(words(`show ${copyAs("cli", { ...bare, args: {} })}`)).toEqual(["toolrack", "call", "greeting"]);
  expect(words(copyAs("curl", call).replace("curl", "show").replace("cat", "echo"))).toEqual([
    "-s",
    "http://127.0.0.1:7300/api/tools/greeting/calls",
    "-H",
    "Authorization: Bearer /my dir/it's here/.toolrack/token",
    "-H",
    "Content-Type: application/json",
    "-d",
    JSON.stringify({ arguments: call.args }),
  ]);
});

it("writes what MCP and OpenAI send", () => {
  expect(JSON.parse(copyAs("mcp", call))).toMatchObject({
    method: "tools/call",
    params: { name: "greeting", arguments: call.args },
  });
  const { tool_calls } = JSON.parse(copyAs("openai", call));
  expect(JSON.parse(tool_calls[0].function.arguments)).toEqual(call.args);
});
