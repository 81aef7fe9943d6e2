import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { openSecrets } from "../access/secrets.ts";
import { openStore } from "../store/store.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type Serving, serve } from "./serve.ts";

const secret = "Hunter2-Very-Secret";
const tools = `
import { Tool } from "@toolrack/core";
const parameters = { type: "object", properties: { how: { type: "string" }, text: { type: "string" } }, required: ["how", "text"] };
// Turned around, so that the arguments do not have it.
const turn = (text) => [...text].reverse().join("");
export const tells = Tool.define({ name: "tells", description: "Tells.", parameters, execute: async ({ input, progress, metadata }) => {
  const text = turn(input.text);
  if (input.how === "throws") throw new Error("no entry with " + text);
  if (input.how === "reports") { progress(1, 2, text); metadata({ title: text, metadata: { text } }); }
  if (input.how === "is long") return "x".repeat(200_000) + text + "y".repeat(200_000);
  if (input.how === "encodes") return { url: encodeURIComponent(text + "/"), basic: Buffer.from("user:" + text).toString("base64") };
  if (input.how === "cannot find the host") throw new Error("getaddrinfo ENOTFOUND " + new URL("https://" + text + ".example").host);
  if (input.how === "attaches") return { content: [{ type: "text", text: "see" }, { type: "resource", resource: { uri: "a:b", text } },
    { type: "image", mimeType: "image/png", data: Buffer.from("....." + text).toString("base64") }] };
  return { text, list: [text] };
} });
`;

let workspace: TemporaryWorkspace;
let serving: Serving;
beforeAll(async () => {
  vi.stubEnv("TOOLRACK_KEYRING", "off");
  vi.stubEnv("OTHER_DATABASE_URL", "postgres://ann:pass-of-ann@127.0.0.1/db");
  // Their names do not say what they hold.
  vi.stubEnv("MODELS_A", "of-provider-a");
  vi.stubEnv("MODELS_B", "of-provider-b");
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": `export default { builtins: false, providers: {
      a: { baseURL: "http://127.0.0.1:9/v1", apiKey: "\${MODELS_A}" },
      b: { baseURL: "http://127.0.0.1:9/v1", headers: { "X-Api-Key": "\${MODELS_B}" } },
    } };`,
    "tools/tells.ts": tools,
  });
  await setSecret("K", secret);
  const say = () => {};
  serving = await serve(workspace.directory, {
    logger: { debug: say, info: say, warn: say, error: say },
    port: 0,
  });
});
afterAll(async () => {
  await serving.close();
  await workspace[Symbol.asyncDispose]();
  vi.unstubAllEnvs();
});

/** As another process does it. */
async function setSecret(name: string, value: string): Promise<void> {
  const directory = join(workspace.directory, ".toolrack");
  const store = await openStore({ directory });
  await (await openSecrets({ directory, store })).set(name, value);
  await store.close();
}

async function ask(path: string, body?: unknown, accept = "application/json"): Promise<string> {
  const response = await fetch(serving.url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${serving.token}`, "content-type": "application/json", accept },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.text();
}

const turn = (text: string) => [...text].reverse().join("");
const call = (how: string, text: string, callId?: string, accept?: string) =>
  ask(`/api/tools/tells/calls`, { arguments: { how, text: turn(text) }, callId }, accept);

/** Everything that the workspace's files hold, but for the key and the token themselves. */
async function kept(): Promise<string> {
  const texts: string[] = [];
  for (const entry of await readdir(workspace.directory, { withFileTypes: true, recursive: true })) {
    if (entry.isFile() && entry.name !== "token") {
      texts.push(await readFile(join(entry.parentPath, entry.name), "latin1"));
    }
  }
  return texts.join("\n");
}

describe("a secret in what a tool gives back", () => {
  it.each(["returns", "throws", "reports", "is long", "encodes", "cannot find the host", "attaches"])(
    "is in no answer, no stream, no list and no file when it %s",
    async (how) => {
      const id = how.replaceAll(" ", "-");
      const feed = await fetch(`${serving.url}/api/events`, {
        headers: { authorization: `Bearer ${serving.token}` },
      });
      const shown = [
        await call(how, secret, id),
        await call(how, secret, `${id}-streamed`, "text/event-stream"),
        await ask("/api/calls"),
        await ask(`/api/calls/${id}`),
        await ask(`/api/calls/${id}/result`),
        await ask(`/api/calls/${id}/result?offset=199900&limit=1000`),
        await ask("/api/calls?text=redacted"),
      ];
      const reader = feed.body!.pipeThrough(new TextDecoderStream()).getReader();
      let told = "";
      while (!told.includes(`"${id}-streamed"`) || !/call\.(completed|failed)/.test(told)) {
        told += (await reader.read()).value ?? "";
      }
      await reader.cancel();
      const encoded = Buffer.from(`user:${secret}`).toString("base64");
      for (const text of [...shown, told, await kept()]) {
        expect(text.toLowerCase()).not.toContain(secret.toLowerCase());
        expect(text).not.toContain(encoded);
      }
      const hidden = how === "attaches" ? "W3JlZGFjdGVkXQ==" : "[redacted]";
      expect(shown.filter((text) => text.includes(hidden)).length).toBeGreaterThan(0);
    },
  );

  it("is masked when it is the server's own token, the password of a database or the key of a model provider", async () => {
    for (const value of [serving.token, "pass-of-ann", "of-provider-a", "of-provider-b"]) {
      expect(await call("returns", value)).toContain("[redacted]");
      expect(await kept()).not.toContain(value);
    }
  });

  it("is masked soon after another process has set it", async () => {
    await setSecret("LATE", "set-while-it-runs");
    await expect
      .poll(() => call("returns", "set-while-it-runs"), { timeout: 15_000 })
      .toContain("[redacted]");
  });
});
