import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { createAddressRules } from "../access/index.ts";
import { asRecord } from "../helpers/index.ts";
import { Api } from "./api.ts";

/**
 * Each file in `testing/traps` is a description with something in it that importers have stumbled over, and says what must
 * come of it: `x-sends`, the request that reaches the server for the arguments `x-call`; `x-says`, the error instead;
 * `x-skips`, why the operation is left out; `x-schema`, `x-arguments` and `x-required`, what a caller is shown; `x-names`,
 * the names of the operations; `x-problem`, what is said of the description. `x-auth` are credentials.
 */
interface Trap {
  readonly "x-call"?: Readonly<Record<string, unknown>>;
  readonly "x-sends"?: Sent;
  readonly "x-says"?: string;
  readonly "x-skips"?: string;
  readonly "x-schema"?: object;
  readonly "x-arguments"?: readonly string[];
  readonly "x-required"?: readonly string[];
  readonly "x-names"?: readonly string[];
  readonly "x-problem"?: string;
  readonly "x-auth"?: Readonly<Record<string, string>>;
}

interface Sent {
  readonly method?: string;
  readonly url: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly contains?: readonly string[];
  /** Headers that must not be sent. */
  readonly lacks?: readonly string[];
}

const folder = join(import.meta.dirname, "testing", "traps");
const traps = await readdir(folder);
const { signal } = new AbortController();
let place: string;

/** Answers every request with what came. */
const echo = createServer(async (request, response) => {
  const { method, url, headers } = request;
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ method, url, headers, body: await text(request) }));
});

beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), "toolrack-traps-"));
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
});

afterAll(async () => {
  await new Promise((resolve) => echo.close(resolve));
  await rm(place, { recursive: true, force: true });
});

it.each(traps)("%s", async (file) => {
  // A listening server at an address has a port.
  const { port } = echo.address() as AddressInfo;
  const written = (await readFile(join(folder, file), "utf8"))
    .replaceAll("SERVER", `http://127.0.0.1:${port}`)
    .replaceAll("OTHER", `http://localhost:${port}`)
    .replaceAll("HOST", `127.0.0.1:${port}`);
  const trap: Trap = parse(written);
  const path = join(place, file);
  await writeFile(path, written);
  const credentials = Object.entries(trap["x-auth"] ?? {}).map(
    ([name, value]) => [name, { kind: "text", value }] as const,
  );
  const api = await Api.open(
    {
      spec: { kind: "file", path },
      credentials: new Map(credentials),
      headers: {},
      isReadOnly: false,
      rules: createAddressRules(["127.0.0.1", "localhost"]),
    },
    signal,
  );
  const { "x-skips": skips, "x-names": names, "x-problem": problem } = trap;
  if (problem !== undefined) expect(api.problems.join()).toContain(problem);
  if (names !== undefined) expect(api.tools.map(({ name }) => name)).toEqual(names);
  if (names !== undefined) return;
  if (skips !== undefined) {
    expect(api.skipped).toEqual([
      { name: "op", reason: expect.stringMatching(new RegExp(escaped(skips), "i")) },
    ]);
    expect(api.tools).toEqual([]);
    return;
  }
  expect(api.skipped).toEqual([]);
  const schema = asRecord(api.tools.find(({ name }) => name === "op")?.inputSchema);
  if (trap["x-schema"] !== undefined) expect(schema).toMatchObject(trap["x-schema"]);
  if (trap["x-arguments"] !== undefined)
    expect(Object.keys(asRecord(schema.properties))).toEqual(trap["x-arguments"]);
  if (trap["x-required"] !== undefined) expect(schema.required ?? []).toEqual(trap["x-required"]);
  const call = trap["x-call"];
  if (call === undefined) return expect(trap["x-schema"]).toBeDefined();
  const answered = api.call("op", call, signal);
  if (trap["x-says"] !== undefined) return expect(answered).rejects.toThrow(trap["x-says"]);
  const {
    method = "GET",
    url,
    body,
    headers = {},
    contains = [],
    lacks = [],
  } = trap["x-sends"] ?? { url: "" };
  const sent = asRecord((await answered).structuredContent);
  expect(sent).toMatchObject({ method, url, headers, ...(body !== undefined && { body }) });
  for (const part of contains) expect(sent.body).toContain(part);
  for (const name of lacks) expect(sent.headers).not.toHaveProperty(name);
});

function escaped(words: string): string {
  return words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
