import { isInside, privatePaths, realRoots } from "../../access/index.ts";
import type { InternalTool, InternalToolContext } from "../../calls/index.ts";
import { type Confinement, confinePath, showPath } from "../confine.ts";
import { entryAt } from "../file/support/entries.ts";
import { IgnoreRules, walk } from "../file/support/walk.ts";

import { analyzeFile, type FileAnalysis, languageOf } from "./support/analysis.ts";

import { addCounts, type FolderAnalysis, renderFile, renderFolder } from "./support/render-analysis.ts";

interface AnalyzeArguments {
  readonly path: string;
  readonly limit: number;
}

const counts = {
  type: "object",
  properties: {
    lines: { type: "integer" },
    code: { type: "integer" },
    comments: { type: "integer" },
    blank: { type: "integer" },
  },
  required: ["lines", "code", "comments", "blank"],
} as const;

export default {
  name: "analyze",
  description:
    "Shows what code consists of without reading it whole. Of a TypeScript or JavaScript file: functions, classes with " +
    "methods, interfaces, types, enums and variables with line ranges and whether they are exported, imports, exports " +
    "and syntax errors. Of other languages: lines of code, comments and blanks. Of a folder: a summary per file.",
  inputSchema: {
    type: "object",
    properties: {
      path: {
        type: "string",
        description: "The file or folder: relative to the workspace, or absolute inside it.",
      },
      limit: {
        type: "integer",
        minimum: 1,
        maximum: 2000,
        default: 200,
        description: "Of a folder, the most files.",
      },
    },
    required: ["path"],
  },
  outputSchema: {
    type: "object",
    properties: {
      path: { type: "string" },
      language: { type: "string", description: "Of a file." },
      counts,
      symbols: {
        type: "array",
        items: {
          type: "object",
          properties: {
            kind: { type: "string" },
            name: { type: "string" },
            line: { type: "integer" },
            endLine: { type: "integer" },
            exported: { type: "boolean" },
            signature: { type: "string" },
            members: { type: "array" },
          },
          required: ["kind", "name", "line", "endLine", "exported"],
        },
      },
      imports: { type: "array" },
      exports: { type: "array", items: { type: "string" } },
      problems: { type: "array", description: "Syntax errors: line, column, message." },
      note: { type: "string" },
      files: {
        type: "array",
        description: "Of a folder: path, language, counts, symbols, exports, problems of each.",
      },
      truncated: { type: "boolean", description: "The folder has more files than the limit." },
    },
    required: ["path", "counts"],
  },
  async handler(args: AnalyzeArguments, context: InternalToolContext) {
    const { workspace } = context;
    const real = await confinePath(workspace, args.path, { mustExist: true });
    if ((await entryAt(real))?.isDirectory())
      return folderResult(await analyzeFolder(real, args.limit, context));
    return fileResult(await analyzeFile(workspace, real));
  },
  metadata: { category: "code", readOnly: true, idempotent: true, tags: ["outline", "symbols"] },
} satisfies InternalTool;

async function analyzeFolder(
  real: string,
  limit: number,
  context: InternalToolContext,
): Promise<FolderAnalysis> {
  const { workspace, signal, progress } = context;
  const files: FileAnalysis[] = [];
  const skipped: string[] = [];
  const found = walk(real, {
    depth: Number.POSITIVE_INFINITY,
    rules: await rulesFor(workspace, real),
    isPrivate: await privatePaths(workspace),
    signal,
    onUnreadable: (relative, reason) => skipped.push(`${relative} (${reason})`),
  });
  let isCut = false;
  for await (const entry of found) {
    if (entry.type !== "file" || languageOf(entry.name) === undefined) continue;
    if (files.length === limit) {
      isCut = true;
      break;
    }
    signal.throwIfAborted();
    const analysis = await analyzeFile(workspace, entry.path).catch((error: Error) => error.message);
    if (typeof analysis === "string") skipped.push(analysis);
    else files.push(analysis);
    if (files.length % 50 === 0) progress(files.length, undefined, `${files.length} files analysed`);
  }
  return { path: await showPath(workspace, real), files, skipped, isCut };
}

async function rulesFor(workspace: Confinement, folder: string): Promise<IgnoreRules> {
  const root = (await realRoots(workspace)).find((candidate) => isInside(candidate, folder)) ?? folder;
  return IgnoreRules.forFolder(root, folder);
}

function fileResult(analysis: FileAnalysis) {
  const { outline, ...rest } = analysis;
  return {
    content: [{ type: "text", text: renderFile(analysis) }],
    structuredContent: { ...rest, ...outline },
  };
}

function folderResult(folder: FolderAnalysis) {
  const files = folder.files.map(({ path, language, counts, outline, problems }) => ({
    path,
    language,
    counts,
    ...(outline === undefined ? {} : { symbols: outline.symbols.length, exports: outline.exports }),
    ...(problems === undefined ? {} : { problems: problems.length }),
  }));
  return {
    content: [{ type: "text", text: renderFolder(folder) }],
    structuredContent: {
      path: folder.path,
      counts: addCounts(folder.files),
      files,
      truncated: folder.isCut,
      ...(folder.skipped.length === 0 ? {} : { note: `Left out: ${folder.skipped.join(" ")}` }),
    },
  };
}
