/** The files of a workspace whose tools note each of their runs in `ran.txt`. */
const tools = `
import { appendFileSync } from "node:fs";
import { Tool } from "@toolrack/core";
const parameters = { type: "object", properties: { n: { type: "number" } } };
const noting = (name, metadata = {}, execute = async ({ input }) => ({ n: input.n })) =>
  Tool.define({ name, description: name, parameters, metadata, execute: (context) => {
    appendFileSync(context.directory + "/ran.txt", name + " " + context.input.n + "\\n");
    return execute(context);
  } });
export const note = noting("note");
export const pay = noting("pay", { dangerous: true });
export const hang = noting("hang", {}, ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", reject)));
export const nap = noting("nap", {}, ({ input }) => new Promise((resolve) => setTimeout(() => resolve({ n: input.n }), 30)));
export const look = noting("look", { readOnly: true }, ({ signal, input }) =>
  new Promise((resolve, reject) => (process.env.HANGS ? signal.addEventListener("abort", reject) : resolve("seen " + input.n))));
`;

const config = 'export default { code: { mode: "on" }, approvals: { timeout: 600000 }, builtins: false };';

export const files = { "tools/tools.ts": tools, "toolrack.config.mjs": config };

/** Code that waits for a person in its fourth line, with calls before, beside and after it. */
export const paying = `const before = [Date.now(), Math.random(), crypto.randomUUID()];
await tools.rack.note({ n: 1 });
await Promise.all([2, 3].map((n) => tools.rack.note({ n })));
const [paid, other] = await Promise.all([tools.rack.pay({ n: 4 }), tools.rack.note({ n: 5 })]);
await tools.rack.note({ n: 1 });
return { before, paid, other };`;
