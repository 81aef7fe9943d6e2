import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export interface RipgrepLine {
  /** Relative to the folder in which ripgrep ran. */
  readonly path: string;
  readonly line: number;
  readonly text: string;
  /** Where the first match begins in `text`, in characters; absent for a context line. */
  readonly match?: { readonly start: number };
}

const MOST_MESSAGES = 4000;

/**
 * Runs ripgrep and passes on its lines as they come. Ends it when `onLine` returns `false` or the signal aborts.
 * Resolves to ripgrep's messages about what could not be searched. Rejects with its error when the search could not
 * begin.
 */
export async function runRipgrep(
  args: readonly string[],
  folder: string,
  signal: AbortSignal,
  onLine: (line: RipgrepLine) => boolean,
): Promise<string> {
  signal.throwIfAborted();
  // Loaded on first use: where the platform has no ripgrep, only this tool fails.
  const { rgPath } = await import("@vscode/ripgrep");
  const child = spawn(rgPath, ["--json", "--no-config", ...args], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close");
  let complaints = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => {
    complaints = (complaints + part).slice(0, MOST_MESSAGES);
  });
  const end = () => child.kill("SIGKILL");
  signal.addEventListener("abort", end, { once: true });
  try {
    // Ripgrep prints a summary after every search that could begin.
    let isBegun = false;
    for await (const text of createInterface({ input: child.stdout })) {
      const event: RipgrepEvent = JSON.parse(text);
      const line = toLine(event);
      isBegun = event.type === "summary" || (line !== undefined && !onLine(line));
      if (!isBegun) continue;
      if (line !== undefined) end();
      break;
    }
    await closed;
    signal.throwIfAborted();
    if (!isBegun) throw new Error(complaints.trim().replace(/^rg: /, ""));
    return complaints.trim();
  } finally {
    signal.removeEventListener("abort", end);
    end();
    // After an error nothing awaits `closed`; it must not become an unhandled rejection.
    closed.catch(() => {});
  }
}

type Encoded = { readonly text: string } | { readonly bytes: string };

interface RipgrepEvent {
  readonly type: "begin" | "end" | "summary" | "match" | "context";
  /** These members are present only when `type` is `match` or `context`; other events have other members. */
  readonly data: {
    readonly path: Encoded;
    readonly lines: Encoded;
    readonly line_number: number | null;
    readonly submatches: readonly { readonly start: number }[];
  };
}

function toLine({ type, data }: RipgrepEvent): RipgrepLine | undefined {
  if (type !== "match" && type !== "context") return undefined;
  const raw = decode(data.lines);
  const [first] = data.submatches;
  return {
    path: decode(data.path).replace(/^\.\//, ""),
    line: data.line_number ?? 0,
    text: raw.replace(/\r?\n$/, ""),
    ...(type === "match" && first && { match: { start: charactersIn(raw, first.start) } }),
  };
}

function decode(value: Encoded): string {
  return "text" in value ? value.text : Buffer.from(value.bytes, "base64").toString("utf8");
}

/** Converts ripgrep's positions, which count bytes of UTF-8, to characters. */
function charactersIn(text: string, bytes: number): number {
  const isAscii = Buffer.byteLength(text) === text.length;
  return isAscii ? bytes : Buffer.from(text).subarray(0, bytes).toString("utf8").length;
}

const LONGEST = 400;
const LEAD = 100;

/** A long line cut to the part around its match. */
export function clipLine(text: string, match: { readonly start: number } | undefined): string {
  if (text.length <= LONGEST) return text;
  const start = Math.max(0, Math.min((match?.start ?? 0) - LEAD, text.length - LONGEST));
  const end = Math.min(text.length, start + LONGEST);
  return `${start > 0 ? "…" : ""}${text.slice(start, end)}${end < text.length ? "…" : ""}`;
}
