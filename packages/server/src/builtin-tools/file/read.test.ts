import { execFileSync } from "node:child_process";
import { mkdir, open, symlink, truncate, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import read from "./read.ts";

interface ReadResult {
  readonly path: string;
  readonly size: number;
  readonly content: string;
  readonly mimeType?: string;
  readonly encoding: string;
  readonly lineEnding: string;
  readonly firstLine: number;
  readonly lastLine: number;
  readonly totalLines?: number;
  readonly next?: { readonly offset: number; readonly skipBytes: number };
}

const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace();
});

afterEach(() => space[Symbol.asyncDispose]());

async function readBack(content: string | Uint8Array, args: object = {}): Promise<ReadResult> {
  await writeFile(space.path("file.txt"), content);
  return space.structured<ReadResult>(read, { path: "file.txt", ...args });
}

async function textOf(content: string | Uint8Array, args: object = {}): Promise<string> {
  await writeFile(space.path("file.txt"), content);
  return space.text(read, { path: "file.txt", ...args });
}

describe("a small text file", () => {
  it("comes back exactly, with nothing added", async () => {
    expect(await textOf("one\ntwo\n")).toBe("one\ntwo\n");
    expect(await textOf("one\ntwo")).toBe("one\ntwo");
  });

  it("tells programs what a writer must know", async () => {
    expect(await readBack("one\ntwo\n")).toEqual({
      path: "file.txt",
      size: 8,
      content: "one\ntwo\n",
      encoding: "utf-8",
      lineEnding: "lf",
      firstLine: 1,
      lastLine: 2,
      totalLines: 2,
    });
  });

  it("may be empty", async () => {
    expect(await textOf("")).toBe("[file.txt is empty.]");
    expect(await readBack("")).toMatchObject({ content: "", totalLines: 0 });
  });

  it("keeps characters of any script", async () => {
    expect(await textOf("工具 🛠\n")).toBe("工具 🛠\n");
  });

  it("is read through a link that stays inside", async () => {
    await symlink("file.txt", space.path("link"));
    await writeFile(space.path("file.txt"), "here");
    expect(await space.structured(read, { path: "link" })).toMatchObject({
      path: "file.txt",
      content: "here",
    });
  });
});

describe("a range of lines", () => {
  const lines = `${Array.from({ length: 10 }, (_, index) => `line ${index + 1}`).join("\n")}\n`;

  it("begins at offset and has at most limit lines", async () => {
    expect(await textOf(lines, { offset: 3, limit: 2 })).toBe(
      "line 3\nline 4\n\n[Lines 3-4 of 10. Read on with offset: 5.]",
    );
  });

  it("says nothing of reading on at the end of the file", async () => {
    expect(await textOf(lines, { offset: 9 })).toBe("line 9\nline 10\n\n[Lines 9-10 of 10.]");
    expect(await textOf("a\nb", { offset: 2 })).toBe("b\n\n[Line 2 of 2.]");
  });

  it("carries line numbers on request", async () => {
    expect(await textOf("a\nb\nc\n", { offset: 2, lineNumbers: true })).toBe(
      "2\tb\n3\tc\n\n[Lines 2-3 of 3.]",
    );
    expect(await textOf("", { lineNumbers: true })).toBe("[file.txt is empty.]");
  });

  it("counts a last line without newline", async () => {
    expect(await readBack("a\nb", { limit: 1 })).toMatchObject({ content: "a\n", totalLines: 2 });
  });

  it("past the end is an error that tells the number of lines", async () => {
    await writeFile(space.path("file.txt"), "a\nb\n");
    expect(await space.failure(read, { path: "file.txt", offset: 3 })).toContain(
      "has 2 lines; offset 3 is past",
    );
    expect(await space.failure(read, { path: "file.txt", offset: 99 })).toContain(
      "has 2 lines; offset 99 is past",
    );
    await writeFile(space.path("file.txt"), "a\nb");
    expect(await space.failure(read, { path: "file.txt", offset: 99 })).toContain("has 2 lines");
  });

  it.each([{ offset: 0 }, { limit: 0 }, { offset: -1 }, { offset: 1.5 }])("refuses %j", async (range) => {
    await writeFile(space.path("file.txt"), "a");
    expect(await space.failure(read, { path: "file.txt", ...range })).toContain(Object.keys(range)[0]);
  });
});

describe("a page", () => {
  it("ends after 2,000 lines", async () => {
    const text = "x\n".repeat(2001);
    expect(await readBack(text)).toMatchObject({ lastLine: 2000, totalLines: 2001, next: { offset: 2001 } });
  });

  it("ends with the last whole line before 256 KB", async () => {
    const line = `${"y".repeat(99_999)}\n`;
    const page = await readBack(line.repeat(5));
    expect(page).toMatchObject({ lastLine: 2, totalLines: 5, next: { offset: 3, skipBytes: 0 } });
    expect(page.content).toBe(line.repeat(2));
  });

  it.each([262_143, 262_144, 262_145])("gives back a file of %i bytes whole, page by page", async (size) => {
    const text = `${"z".repeat(1023)}\n`.repeat(300).slice(0, size);
    await writeFile(space.path("file.txt"), text);
    expect(await readAll()).toBe(text);
  });

  it("goes on inside a line that is longer than a page, never cutting a character", async () => {
    const text = `first\n${"é🛠漢".repeat(60_000)}\nlast`;
    await writeFile(space.path("file.txt"), text);
    expect(await readAll()).toBe(text);
    const cut = await space.text(read, { path: "file.txt", offset: 2 });
    expect(cut).toMatch(
      /\[A piece of line 2, which is longer than a page\. Read on with offset: 2, skipBytes: \d+\.\]$/,
    );
  });

  async function readAll(): Promise<string> {
    let text = "";
    let next: object | undefined = {};
    while (next !== undefined) {
      const page: ReadResult = await space.structured<ReadResult>(read, { path: "file.txt", ...next });
      text += page.content;
      next = page.next;
    }
    return text;
  }
});

describe("a huge file", () => {
  it("is not read whole", async () => {
    await writeFile(space.path("file.txt"), "some text\n".repeat(5000));
    await truncate(space.path("file.txt"), 1024 ** 3);
    const before = process.memoryUsage().rss;
    const page = await space.structured<ReadResult>(read, { path: "file.txt" });
    expect(page).toMatchObject({ size: 1024 ** 3, lastLine: 2000, next: { offset: 2001 } });
    expect(page.totalLines).toBeUndefined();
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
  });

  it("can be cancelled while it is searched for a line", async () => {
    const handle = await open(space.path("file.txt"), "w");
    await handle.write("text\n".repeat(4000));
    await handle.truncate(8 * 1024 ** 3);
    await handle.close();
    const controller = new AbortController();
    const call = space.call(read, { path: "file.txt", offset: 5000 }, { signal: controller.signal });
    setTimeout(() => controller.abort(), 30);
    expect((await call).error?.code).toBe("cancelled");
  });
});

describe("line endings and encodings", () => {
  it("shows CRLF as lines and says so; programs get the exact text", async () => {
    expect(await textOf("a\r\nb\r\n")).toBe("a\nb\n\n[CRLF line endings.]");
    expect(await readBack("a\r\nb\r\n")).toMatchObject({ content: "a\r\nb\r\n", lineEnding: "crlf" });
    expect(await readBack("a\r\nb\n")).toMatchObject({ lineEnding: "mixed" });
  });

  it("leaves out a byte order mark and says so", async () => {
    expect(await textOf("\uFEFFa\n")).toBe("a\n\n[UTF-8 with byte order mark.]");
    expect(await readBack("\uFEFF")).toMatchObject({ content: "", totalLines: 0 });
  });

  it("reads UTF-16 by its mark, by lines", async () => {
    const little = Buffer.from("\uFEFFa\nĊ漢\nc", "utf16le");
    expect(await readBack(little, { offset: 2, limit: 1 })).toMatchObject({
      content: "Ċ漢\n",
      encoding: "utf-16le",
      totalLines: 3,
    });
    expect(await readBack(Buffer.from(little).swap16(), { offset: 3 })).toMatchObject({
      content: "c",
      encoding: "utf-16be",
    });
  });

  it("reads another encoding when told", async () => {
    const gbk = Buffer.from([0xb9, 0xa4, 0xbe, 0xdf, 0x0a]);
    expect(await readBack(gbk, { encoding: "gbk" })).toMatchObject({ content: "工具\n", encoding: "gbk" });
  });

  it("says what to pass when the file is not UTF-8", async () => {
    await writeFile(space.path("file.txt"), Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a]));
    expect(await space.failure(read, { path: "file.txt" })).toContain('pass encoding, such as "gbk"');
    expect(await space.text(read, { path: "file.txt", encoding: "latin1" })).toBe("café\n");
  });

  it("reads the good part of a file that has a bad byte later", async () => {
    const bytes = Buffer.concat([Buffer.from("good\n".repeat(10)), Buffer.from([0xff, 0x0a])]);
    expect(await readBack(bytes, { limit: 10 })).toMatchObject({ lastLine: 10, totalLines: 11 });
  });

  it("refuses an encoding that does not exist", async () => {
    await writeFile(space.path("file.txt"), "a");
    expect(await space.failure(read, { path: "file.txt", encoding: "utf-9" })).toContain(
      '"utf-9" is no encoding',
    );
  });
});

describe("a binary file", () => {
  it("is described, never dumped", async () => {
    const text = await textOf(Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3]));
    expect(text).toBe("file.txt is a binary file (application/gzip, 7 bytes). Its bytes are not shown.");
    expect(await readBack(Buffer.from("abc\0def"))).toEqual({
      path: "file.txt",
      size: 7,
      mimeType: "application/octet-stream",
    });
  });

  it("is noticed when the bytes that are no text come late", async () => {
    const late = Buffer.concat([Buffer.from("text\n".repeat(5000)), Buffer.from([0, 1, 2])]);
    expect(await readBack(late, { offset: 4000 })).toMatchObject({ mimeType: "application/octet-stream" });
  });

  it("comes back as an image when it is a small one", async () => {
    await writeFile(space.path("pixel.png"), pixel);
    const result = await space.call(read, { path: "pixel.png" });
    expect(result.attachments?.[0]).toMatchObject({ mime: "image/png" });
    expect(result.attachments?.[0]?.url).toContain(pixel.toString("base64"));
    expect(result.structured).toMatchObject({ mimeType: "image/png", size: pixel.length });
  });

  it("is only described when it is a large image", async () => {
    const large = Buffer.concat([pixel, Buffer.alloc(3 * 1024 * 1024)]);
    await writeFile(space.path("large.png"), large);
    const result = await space.call(read, { path: "large.png" });
    expect(result.content).toBe("large.png is a binary file (image/png, 3 MB). Its bytes are not shown.");
    expect(result.attachments).toBeUndefined();
  });

  it("is not taken for an image by letters that text may begin with", async () => {
    expect(await textOf("GIF89a is a format\n")).toBe("GIF89a is a format\n");
    expect(await textOf("BMW\n")).toBe("BMW\n");
  });
});

describe("what is no file", () => {
  it("is refused with a pointer to the right tool when it is a folder", async () => {
    await mkdir(space.path("folder"));
    expect(await space.failure(read, { path: "folder" })).toBe(
      "folder is a folder. internal_file_list shows what is in it.",
    );
  });

  it("is refused with the nearest names when there is nothing", async () => {
    await writeFile(space.path("readme.md"), "");
    expect(await space.failure(read, { path: "README.txt" })).toContain(
      "Nearest in the workspace: readme.md",
    );
  });

  it("is refused without waiting when it is a pipe", async () => {
    execFileSync("mkfifo", [space.path("pipe")]);
    expect(await space.failure(read, { path: "pipe" })).toContain("neither a file nor a folder");
  });

  it("is refused when it lies outside", async () => {
    expect(await space.failure(read, { path: "/etc/passwd" })).toContain(space.directory);
    await symlink("/etc/passwd", space.path("link"));
    expect(await space.failure(read, { path: "link" })).toContain("leads through a link out of");
  });
});
