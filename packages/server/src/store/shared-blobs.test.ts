import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
// @ts-expect-error: The package has no types.
import aws4 from "aws4";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import {
  findPostgres,
  startPostgres,
  type TestDatabaseServer,
} from "../builtin-tools/testing/database-servers.ts";
import { openStore, type Store, type StoreOptions } from "./store.ts";
import { makeRecord, textResult } from "./testing/records.fixture.ts";

const postgres = findPostgres();
if (postgres === undefined)
  console.warn("SKIPPED: blobs in S3-compatible storage. Install PostgreSQL to run it.");

const keys = { accessKeyId: "AKIDTEST", secretAccessKey: "a/secret+key" };

/** Serves objects as S3 does. Each request must have the signature that another implementation makes for it. */
async function startS3(): Promise<{ url: string } & AsyncDisposable> {
  const objects = new Map<string, { body: Buffer; at: string }>();
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method = "", url = "", headers } = incoming;
    const answer = (status: number, text: string | Buffer = "") => outgoing.writeHead(status).end(text);
    const signedNames = /SignedHeaders=([^,]+)/.exec(headers.authorization ?? "")?.[1]?.split(";") ?? [];
    const given = Object.fromEntries(signedNames.map((name) => [name, String(headers[name])]));
    const expected = aws4.sign(
      { service: "s3", region: "eu-west-1", method, path: url, headers: given },
      keys,
    );
    const hash = createHash("sha256").update(body).digest("hex");
    const isSigned = expected.headers?.Authorization === headers.authorization;
    if (!isSigned || headers["x-amz-content-sha256"] !== hash)
      return answer(403, "<Error><Code>SignatureDoesNotMatch</Code><Message>No.</Message></Error>");
    const { pathname, searchParams } = new URL(url, "http://s3");
    const key = decodeURIComponent(pathname).slice("/rack/".length);
    if (searchParams.has("list-type")) {
      const after = searchParams.get("continuation-token") ?? "";
      const prefix = searchParams.get("prefix") ?? "";
      const [first, second] = [...objects.keys()]
        .sort()
        .filter((name) => name.startsWith(prefix) && name > after);
      const shown =
        first === undefined
          ? ""
          : `<Contents><Key>${first}</Key><LastModified>${objects.get(first)?.at}</LastModified></Contents>`;
      const more = second === undefined ? "" : `<NextContinuationToken>${first}</NextContinuationToken>`;
      return answer(200, `<ListBucketResult>${shown}${more}</ListBucketResult>`);
    }
    const found = objects.get(key);
    if (method === "PUT") objects.set(key, { body, at: new Date().toISOString() });
    if (method === "PUT") return answer(200);
    if (found === undefined) return answer(404, "<Error><Code>NoSuchKey</Code></Error>");
    if (method === "DELETE") objects.delete(key);
    if (method === "DELETE") return answer(204);
    const [from = 0, to = found.body.length] =
      /bytes=(\d+)-(\d*)/
        .exec(headers.range ?? "")
        ?.slice(1)
        .map((digits) => (digits === "" ? undefined : Number(digits))) ?? [];
    return from >= found.body.length ? answer(416) : answer(206, found.body.subarray(from, to + 1));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  // A server on a port has an address of this form.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => void server.close().closeAllConnections(),
  };
}

describe.skipIf(postgres === undefined)("long results of nodes with S3-compatible storage", () => {
  let folder: string;
  let database: TestDatabaseServer;
  let s3: Awaited<ReturnType<typeof startS3>>;
  const stores: Store[] = [];
  const logger = { warn() {}, error() {} };
  const open = async (other: Partial<StoreOptions> = {}) => {
    const directory = await mkdtemp(join(folder, "node-"));
    const blobs = `s3://rack/team a/blobs?endpoint=${s3.url}&above=100000&region=eu-west-1`;
    const store = await openStore({ directory, url: database.url, blobs, logger, ...other });
    stores.push(store);
    return store;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "toolrack-s3-"));
    database = await startPostgres(postgres!);
    s3 = await startS3();
    vi.stubEnv("AWS_ACCESS_KEY_ID", keys.accessKeyId);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", keys.secretAccessKey);
  }, 90_000);
  afterAll(async () => {
    for (const store of stores) await store.close();
    await s3[Symbol.asyncDispose]();
    await database[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
    vi.unstubAllEnvs();
  }, 30_000);

  it("lie there from a size on, and are read by page on every node", async () => {
    const [one, other] = [await open(), await open()];
    const record = makeRecord();
    const text = `${"四 a ".repeat(100_000)}the end`;
    await one.calls.finished(record, textResult(text));
    expect(await other.calls.readResult(record.callId, 399_998, 100)).toEqual({
      text: "a the end",
      total: 400_007,
    });
    expect((await other.calls.readResult(record.callId, 0, 1_000_000))?.text === text).toBe(true);
    expect(await other.calls.readResult(record.callId, 500_000, 5)).toEqual({ text: "", total: 400_007 });
    const small = makeRecord();
    await one.calls.finished(small, textResult("x".repeat(99_000)));
    expect((await other.calls.readResult(small.callId, 98_990, 100))?.text).toBe("x".repeat(10));
    const names: string[] = [];
    await one.blobs.collect(async (some) => {
      names.push(...some);
      return new Set();
    });
    expect(names.map((name) => name.slice(64)).sort()).toEqual([".latin1", ".s3.utf16le"]);
    // Too young to be deleted.
    expect((await other.calls.readResult(record.callId, 0, 1))?.text).toBe("四");
    vi.useFakeTimers({ now: Date.now() + 2 * 60 * 60_000, toFake: ["Date"] });
    await one.blobs.collect(async () => new Set());
    vi.useRealTimers();
    await expect(other.calls.readResult(record.callId, 0, 1)).rejects.toThrow(/\.s3\.utf16le, is missing/);
  });

  it("say what is wrong: no keys, a wrong key, no such address, an address of another kind", async () => {
    await expect(open({ blobs: "ftp://x" })).rejects.toThrow("BLOBS_URL must be s3://");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wrong");
    const wrong = await open();
    const long = textResult("y".repeat(200_000));
    await expect(wrong.calls.finished(makeRecord(), long)).rejects.toThrow("403 SignatureDoesNotMatch");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "");
    await expect(open()).rejects.toThrow("set AWS_ACCESS_KEY_ID");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", keys.secretAccessKey);
    const away = await open({ blobs: "s3://rack?endpoint=http://127.0.0.1:1&above=1000" });
    // Storage that is away is waited for, as a database is.
    expect(await away.calls.finished(makeRecord(), long)).toBe("held");
  });
});
