import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

/** A workspace with a tool for every case that the command line handles. */
export function sampleWorkspace(): Promise<TemporaryWorkspace> {
  return TemporaryWorkspace.create({
    "tools/sample.ts": `
import { BusinessError, Tool } from "@toolrack/core";
const none = { type: "object", properties: {} };
console.log("printed while loading");
setInterval(() => {}, 1000);
setTimeout(() => {}, 600_000);

export const noisy = Tool.define({ name: "noisy", description: "Prints where it should not.", parameters: none,
  execute: async ({ logger }) => { console.log("printed"); process.stdout.write("written\\n"); logger.info("logged"); return "the result"; } });
export const long = Tool.define({ name: "long", description: "Returns a lot.", parameters: none, execute: async () => "字".repeat(400_000) });
export const waits = Tool.define({ name: "waits", description: "Waits to be stopped.", parameters: none,
  execute: ({ signal }) => new Promise((_, reject) => { console.error("waiting"); signal.addEventListener("abort", () => { console.error("saw the abort"); reject(new Error("stopped")); }); }) });
export const fails = Tool.define({ name: "fails", description: "Fails.", parameters: none, execute: async () => { throw new BusinessError("no paper"); } });
export const exits = Tool.define({ name: "exits", description: "Tries to end the process.", parameters: none, execute: async () => process.exit(0) });
export const guarded = Tool.define({ name: "guarded", description: "Needs a permission.", parameters: none, metadata: { permissions: ["vault:open"] }, execute: async () => "open" });
export const remove = Tool.define({ name: "remove", description: "Removes something.", metadata: { dangerous: true, confirm: "真的要删除吗？", category: "danger" },
  parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] }, execute: async ({ input }) => "removed " + input.path });
export const picture = Tool.define({ name: "picture", description: "Draws.", parameters: none,
  execute: async () => ({ content: [{ type: "text", text: "a picture" }, { type: "image", data: Buffer.from("pixels").toString("base64"), mimeType: "image/png" }] }) });
export const echo = Tool.define({ name: "echo", title: "回声", description: "Gives its arguments back. 原样返回参数。", aliases: ["repeat"], metadata: { category: "text", tags: ["测试"], readOnly: true },
  parameters: { type: "object", properties: {
    text: { type: "string", description: "要返回的文本" },
    count: { type: "integer", minimum: 1, default: 1 },
    loud: { type: "boolean" },
    tags: { type: "array", items: { type: "string" } },
    mode: { enum: ["plain", "fancy"] },
    at: { type: "object", properties: { x: { type: "number" } } },
  }, required: ["text"] }, execute: async ({ input }) => input });
`,
    "tools/broken.ts": "export const schema = {\n  name: 'broken'\n  description: 'x',\n};\n",
    "tools/old/prefixed.js":
      "module.exports = { name: 'internal_old_prefixed', description: '旧的', inputSchema: { type: 'object' }, handler: async () => 'ok' }",
    "toolrack.config.ts": `export default { permissions: ["file:*"], databases: { shop: "sqlite:shop.db" } };`,
  });
}
