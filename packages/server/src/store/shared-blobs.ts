import { createHash, createHmac } from "node:crypto";
import { fileURLToPath } from "node:url";
import { sql } from "kysely";
import { BlobFolder, type BlobPlace, Blobs } from "./blobs.ts";
import { StoreUnavailable } from "./database-errors.ts";
import { deleteRows } from "./row-mapping.ts";
import type { Engine, StoreDatabase } from "./schema.ts";

/**
 * Opens the blobs of a store that is on a database server: in the database, unless `address` says otherwise. `folder` may
 * have blobs of an older version, which are still read.
 */
export function openSharedBlobs(db: StoreDatabase, engine: Engine, folder: string, address = ""): Blobs {
  const old = new BlobFolder(folder);
  const table = new BlobTable(db, engine);
  if (address === "") return new Blobs(table, undefined, old);
  const url = URL.parse(address);
  if (url?.protocol === "file:") return new Blobs(new BlobFolder(fileURLToPath(url)), undefined, old);
  if (url?.protocol === "s3:")
    return new Blobs(table, { place: S3Bucket.open(url), from: leastBytes(url) }, old);
  throw new Error(
    "BLOBS_URL must be s3://BUCKET/PREFIX?endpoint=https://…&region=…, or file:///a/folder/that/all/nodes/share. Leave it out to keep long results in the database.",
  );
}

const LEAST_BYTES = 1024 * 1024;

function leastBytes(url: URL): number {
  const text = url.searchParams.get("above");
  const bytes = text === null ? LEAST_BYTES : Number(text);
  if (Number.isSafeInteger(bytes) && bytes >= 0) return bytes;
  throw new Error(`"above" of BLOBS_URL must be a number of bytes, and is "${text}".`);
}

/** Bytes of one row. An even number, so that no character of two bytes is cut. */
const PART = 256 * 1024;

/** Blobs as rows of the database, in parts of one size, so that a page is read without the others. */
class BlobTable implements BlobPlace {
  readonly #db: StoreDatabase;
  readonly #engine: Engine;

  constructor(db: StoreDatabase, engine: Engine) {
    this.#db = db;
    this.#engine = engine;
  }

  async touch(name: string): Promise<boolean> {
    const used = this.#db.updateTable("blobs").set({ used_at: Date.now() }).where("name", "=", name);
    return (await used.executeTakeFirst()).numUpdatedRows > 0n;
  }

  async write(name: string, slices: () => AsyncIterable<Buffer>, size: number): Promise<void> {
    await this.#db.transaction().execute(async (db) => {
      const insert = this.#engine === "mysql" ? sql`insert ignore into` : sql`insert into`;
      const otherwise = this.#engine === "mysql" ? sql`` : sql`on conflict do nothing`;
      // Another node that writes the same text waits here until this one has, and then has nothing to write.
      const added = await sql`${insert} blobs (name, size, used_at) values (${name}, ${size}, ${Date.now()})
        ${otherwise}`.execute(db);
      if (added.numAffectedRows === 0n) return;
      let part = 0;
      for await (const slice of slices())
        for (let at = 0; at < slice.length; at += PART, part++)
          await db
            .insertInto("blob_parts")
            .values({ name, part, data: slice.subarray(at, at + PART) })
            .execute();
    });
  }

  async read(name: string, start: number, length: number): Promise<Buffer | undefined> {
    const found = await this.#db
      .selectFrom("blobs")
      .select("size")
      .where("name", "=", name)
      .executeTakeFirst();
    if (found === undefined) return undefined;
    const end = Math.min(start + length, found.size);
    const chunks: Buffer[] = [];
    for (let at = start; at < end; ) {
      const part = Math.floor(at / PART);
      const within = at - part * PART;
      const wanted = Math.min(end - at, PART - within);
      const bytes = sql<Uint8Array>`substring(data from ${sql.lit(within + 1)} for ${sql.lit(wanted)})`;
      const row = await this.#db
        .selectFrom("blob_parts")
        .select(bytes.as("bytes"))
        .where("name", "=", name)
        .where("part", "=", part)
        .executeTakeFirst();
      if (row === undefined || row.bytes.length < wanted) return undefined;
      chunks.push(Buffer.from(row.bytes.buffer, row.bytes.byteOffset, row.bytes.length));
      at += wanted;
    }
    return Buffer.concat(chunks);
  }

  async *list(): AsyncGenerator<readonly string[]> {
    for (let last = ""; ; ) {
      const page = this.#db.selectFrom("blobs").select("name").where("name", ">", last).orderBy("name");
      const names = (await page.limit(1_000).execute()).map(({ name }) => name);
      if (names.length === 0) return;
      yield names;
      last = names.at(-1)!;
    }
  }

  async remove(names: readonly string[], usedBefore: number): Promise<void> {
    for (const name of names)
      await this.#db.transaction().execute(async (db) => {
        const old = db
          .deleteFrom("blobs")
          .where("name", "=", name)
          .where("used_at", "<", Math.floor(usedBefore));
        if ((await old.executeTakeFirst()).numDeletedRows > 0n) await deleteRows(db, "blob_parts", { name });
      });
  }
}

/** Milliseconds that one request to the storage may take. */
const REQUEST_LIMIT = 30_000;

/** Blobs as objects of S3-compatible storage. Requests are signed with AWS Signature Version 4. */
class S3Bucket implements BlobPlace {
  readonly #base: URL;
  readonly #prefix: string;
  readonly #region: string;
  readonly #id: string;
  readonly #secret: string;
  readonly #session: string | undefined;

  private constructor(base: URL, prefix: string, region: string, keys: readonly [string, string, string?]) {
    this.#base = base;
    this.#prefix = prefix;
    this.#region = region;
    [this.#id, this.#secret, this.#session] = keys;
  }

  static open(url: URL): S3Bucket {
    const {
      AWS_ACCESS_KEY_ID: id,
      AWS_SECRET_ACCESS_KEY: secret,
      AWS_SESSION_TOKEN,
      AWS_REGION,
    } = process.env;
    if (!id || !secret)
      throw new Error(
        "BLOBS_URL names S3-compatible storage: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY too.",
      );
    const region = url.searchParams.get("region") ?? AWS_REGION ?? "us-east-1";
    const endpoint = url.searchParams.get("endpoint") ?? `https://s3.${region}.amazonaws.com`;
    const prefix = decodeURIComponent(url.pathname.slice(1));
    return new S3Bucket(
      new URL(`${endpoint.replace(/\/+$/, "")}/${url.hostname}/`),
      prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`,
      region,
      [id, secret, AWS_SESSION_TOKEN || undefined],
    );
  }

  /** An object cannot be marked as used, so it is written again: it is the same, and its time is new. */
  async touch(): Promise<boolean> {
    return false;
  }

  async write(name: string, slices: () => AsyncIterable<Buffer>): Promise<void> {
    const all: Buffer[] = [];
    for await (const slice of slices()) all.push(slice);
    const body = Buffer.concat(all);
    await this.#ask("PUT", this.#prefix + name, { body });
  }

  async read(name: string, start: number, length: number): Promise<Buffer | undefined> {
    if (length === 0) return Buffer.alloc(0);
    const last = Number.isFinite(length) ? start + length - 1 : "";
    const answer = await this.#ask("GET", this.#prefix + name, { range: `bytes=${start}-${last}` });
    if (answer.status === 404) return undefined;
    // Behind the end there is nothing.
    return answer.status === 416 ? Buffer.alloc(0) : Buffer.from(await answer.arrayBuffer());
  }

  async *list(): AsyncGenerator<readonly string[]> {
    for await (const page of this.#pages("")) yield page.map(({ name }) => name);
  }

  async remove(names: readonly string[], usedBefore: number): Promise<void> {
    for (const name of names)
      for await (const page of this.#pages(name))
        for (const object of page)
          if (object.name === name && object.usedAt < usedBefore)
            await this.#ask("DELETE", this.#prefix + name, {});
  }

  async *#pages(name: string): AsyncGenerator<readonly { readonly name: string; readonly usedAt: number }[]> {
    for (let next: string | undefined = ""; next !== undefined; ) {
      const query: Record<string, string> = { "list-type": "2", prefix: this.#prefix + name };
      if (next !== "") query["continuation-token"] = next;
      const text = await (await this.#ask("GET", "", { query })).text();
      yield [...text.matchAll(/<Contents>(.*?)<\/Contents>/gs)].map(([, object = ""]) => ({
        name: tagOf(object, "Key").slice(this.#prefix.length),
        usedAt: Date.parse(tagOf(object, "LastModified")),
      }));
      next = tagOf(text, "NextContinuationToken") || undefined;
    }
  }

  /** Rejects for every answer but a success, 404 and 416. */
  async #ask(
    method: string,
    key: string,
    {
      body,
      range,
      query = {},
    }: { body?: Buffer<ArrayBuffer>; range?: string; query?: Record<string, string> },
  ): Promise<Response> {
    const url = new URL(encodeKey(key), this.#base);
    // Sorted and encoded as the signature demands.
    url.search = Object.entries(query)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, value]) => `${encodeText(name)}=${encodeText(value)}`)
      .join("&");
    const headers = this.#sign(method, url, body);
    const answer = await fetch(url, {
      method,
      headers: { ...headers, ...(range === undefined ? {} : { range }) },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(REQUEST_LIMIT),
    }).catch((error) => {
      throw new StoreUnavailable("away", error);
    });
    if (answer.ok || answer.status === 416) return answer;
    const text = await answer.text();
    const code = tagOf(text, "Code");
    if (answer.status === 404 && code !== "NoSuchBucket") return answer;
    const reason = `The storage at ${this.#base.origin} answered ${answer.status} ${code}: ${tagOf(text, "Message")}`;
    throw answer.status >= 500 ? new StoreUnavailable("away", new Error(reason)) : new Error(reason);
  }

  #sign(method: string, url: URL, body: Buffer | undefined): Record<string, string> {
    const time = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
    const hash = createHash("sha256")
      .update(body ?? "")
      .digest("hex");
    const headers: Record<string, string> = {
      host: url.host,
      "x-amz-content-sha256": hash,
      "x-amz-date": time,
      ...(this.#session === undefined ? {} : { "x-amz-security-token": this.#session }),
    };
    const names = Object.keys(headers).sort();
    const lines = names.map((name) => `${name}:${headers[name]}\n`).join("");
    const request = [method, url.pathname, url.search.slice(1), lines, names.join(";"), hash].join("\n");
    const scope = `${time.slice(0, 8)}/${this.#region}/s3/aws4_request`;
    const text = [ALGORITHM, time, scope, createHash("sha256").update(request).digest("hex")].join("\n");
    const key = scope
      .split("/")
      .reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${this.#secret}`);
    const signature = hmac(key, text).toString("hex");
    const { host: _, ...sent } = headers;
    return {
      ...sent,
      authorization: `${ALGORITHM} Credential=${this.#id}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`,
    };
  }
}

const ALGORITHM = "AWS4-HMAC-SHA256";

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

/** As the signature demands: all but letters, digits and `-._~` is escaped. */
function encodeText(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function encodeKey(key: string): string {
  return key.split("/").map(encodeText).join("/");
}

/** The text of the first element with this name; empty when there is none. Our names have no signs that XML escapes. */
function tagOf(xml: string, name: string): string {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? "";
}
