import { basename, extname } from "node:path";
import type { ParseResult, ParserOptions } from "@babel/parser";

export interface SyntaxProblem {
  readonly line: number;
  /** From 1. */
  readonly column: number;
  readonly message: string;
}

export interface ParsedScript {
  /** Absent when the file is so broken that nothing can be said of its parts. */
  readonly file?: ParseResult;
  readonly problems: readonly SyntaxProblem[];
}

const MOST_PROBLEMS = 50;

/** Parses TypeScript or JavaScript, going on after errors where it can. Never rejects for what is in the text. */
export async function parseScript(path: string, text: string): Promise<ParsedScript> {
  // Loaded on first use: most racks never analyse code.
  const { parse } = await import("@babel/parser");
  try {
    const file = parse(text, optionsFor(path, text));
    return { file, problems: (file.errors ?? []).slice(0, MOST_PROBLEMS).map(toProblem) };
  } catch (error) {
    return { problems: [toProblem(error)] };
  }
}

function optionsFor(path: string, text: string): ParserOptions {
  const ending = extname(path).toLowerCase();
  const isTyped = /^\.[mc]?tsx?$/.test(ending);
  const isFlow = !isTyped && /@flow\b/.test(text.slice(0, 1000));
  const dialect: NonNullable<ParserOptions["plugins"]> = isTyped
    ? [["typescript", { dts: /\.d\.[mc]?ts$/.test(basename(path)) }]]
    : isFlow
      ? ["flow"]
      : [];
  // In .ts files `<T>x` is a cast, so JSX cannot be read there.
  const jsx: typeof dialect = isTyped && ending !== ".tsx" ? [] : ["jsx"];
  return {
    sourceType: /^\.m/.test(ending) ? "module" : /^\.c/.test(ending) ? "commonjs" : "unambiguous",
    errorRecovery: true,
    allowUndeclaredExports: true,
    plugins: [...dialect, ...jsx, "decorators"],
  };
}

function toProblem(error: unknown): SyntaxProblem {
  const { message = String(error), loc } = error as {
    message?: string;
    loc?: { line: number; column: number };
  };
  return {
    line: loc?.line ?? 1,
    column: (loc?.column ?? 0) + 1,
    message: message.replace(/ \(\d+:\d+\)$/, ""),
  };
}
