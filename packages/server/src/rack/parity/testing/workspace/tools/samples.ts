import { BusinessError, Tool } from "@toolrack/core";

const nothing = { type: "object", properties: {} };
const echoed = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };

/** Never ends by itself. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

export const say = Tool.define({
  name: "say",
  displayName: "Say/说",
  aliases: ["speak"],
  description: "Gives the text back.",
  parameters: echoed,
  execute: async ({ input }) => String(input.text),
});

export const add = Tool.define({
  name: "add",
  description: "Adds two numbers.",
  parameters: {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number", default: 1 } },
    required: ["a"],
  },
  execute: async ({ input }) => ({ sum: Number(input.a) + Number(input.b) }),
});

export const measure = Tool.define({
  name: "measure",
  description: "Measures a text.",
  parameters: echoed,
  outputSchema: {
    type: "object",
    properties: { length: { type: "integer" }, words: { type: "array", items: { type: "string" } } },
    required: ["length", "words"],
  },
  execute: async ({ input }) => ({ length: String(input.text).length, words: String(input.text).split(" ") }),
});

export const misfit = Tool.define({
  name: "misfit",
  description: "Returns what its own schema forbids.",
  parameters: nothing,
  outputSchema: { type: "object", properties: { length: { type: "integer" } }, required: ["length"] },
  execute: async () => ({ length: "long" }),
});

export const draw = Tool.define({
  name: "draw",
  description: "Draws a picture.",
  parameters: nothing,
  execute: async () => ({
    content: [
      { type: "text", text: "a picture" },
      { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" },
    ],
  }),
});

export const regret = Tool.define({
  name: "regret",
  description: "Returns an error.",
  parameters: nothing,
  execute: async () => ({ type: "error", content: "The shelf is empty. Order first." }),
});

export const regretAsMcp = Tool.define({
  name: "regret_as_mcp",
  description: "Returns an error as MCP says it.",
  parameters: nothing,
  execute: async () => ({ isError: true, content: [{ type: "text", text: "The shelf is locked." }] }),
});

export const burst = Tool.define({
  name: "burst",
  description: "Throws.",
  parameters: nothing,
  execute: async () => {
    throw new Error("the disk is on fire");
  },
});

export const foresee = Tool.define({
  name: "foresee",
  description: "Fails in a way that its author foresaw.",
  parameters: nothing,
  execute: async () => {
    throw new BusinessError("There is no paper.", { data: { solution: "Put some in.", retryable: true } });
  },
});

export const retired = {
  ...Tool.define({ name: "retired", description: "Is off.", parameters: nothing, execute: async () => "on" }),
  disabled: true,
};

export const switched = Tool.define({
  name: "switched",
  description: "An operator switches it off.",
  parameters: nothing,
  execute: async () => "on",
});

export const wipe = Tool.define({
  name: "wipe",
  description: "Wipes a disk.",
  parameters: { type: "object", properties: { disk: { type: "string" } }, required: ["disk"] },
  metadata: { dangerous: true },
  execute: async () => "wiped",
});

export const vault = Tool.define({
  name: "vault",
  description: "Opens the vault.",
  parameters: nothing,
  metadata: { permissions: ["vault:open"] },
  execute: async () => "open",
});

export const slow = Tool.define({
  name: "slow",
  description: "Takes longer than it may.",
  parameters: nothing,
  metadata: { timeout: 200 },
  execute: ({ signal }) => untilAborted(signal),
});

export const wait = Tool.define({
  name: "wait",
  description: "Waits to be stopped.",
  parameters: nothing,
  execute: ({ signal, logger }) => {
    logger.info("waiting to be stopped");
    return untilAborted(signal);
  },
});

export const recite = Tool.define({
  name: "recite",
  description: "Answers with a long text.",
  parameters: nothing,
  execute: async () => "0123456789".repeat(6_000),
});

export const outer = Tool.define({
  name: "outer",
  description: "Calls a tool that calls a tool.",
  parameters: echoed,
  execute: async ({ input, call }) => `outer(${(await call("inner", { text: input.text })).content})`,
});

export const inner = Tool.define({
  name: "inner",
  description: "Calls a tool.",
  parameters: echoed,
  execute: async ({ input, call }) => `inner(${(await call("say", { text: input.text })).content})`,
});

export const thief = Tool.define({
  name: "thief",
  description: "Calls a tool that its caller may not use.",
  parameters: nothing,
  execute: async ({ call }) => (await call("vault")).content,
});

export const hush = Tool.define({
  name: "hush",
  description: "Answers with nothing.",
  parameters: nothing,
  execute: async () => "",
});

export const steps = Tool.define({
  name: "steps",
  description: "Tells how far it is.",
  parameters: nothing,
  execute: async ({ progress }) => {
    progress(1, 2, "half way");
    progress(2, 2, "there");
    return "done";
  },
});

export const login = Tool.define({
  name: "login",
  description: "Takes a secret.",
  parameters: {
    type: "object",
    properties: { user: { type: "string" }, password: { type: "string" } },
    required: ["user", "password"],
  },
  execute: async ({ input }) => `hello ${input.user}`,
});
