import type { InternalTool } from "../calls/index.ts";
import analyze from "./code/analyze.ts";
import format from "./code/format.ts";
import search from "./code/search.ts";
import query from "./database/query.ts";
import update from "./database/update.ts";
import copy from "./file/copy.ts";
import remove from "./file/delete.ts";
import list from "./file/list.ts";
import mkdir from "./file/mkdir.ts";
import move from "./file/move.ts";
import read from "./file/read.ts";
import write from "./file/write.ts";
import download from "./network/download.ts";
import request from "./network/request.ts";
import env from "./system/env.ts";
import execute from "./system/execute.ts";
import info from "./system/info.ts";

/** The built-in tools by group. They are written in contract 1, like tools of a workspace. */
export const builtinTools: Readonly<Record<string, readonly InternalTool[]>> = {
  file: [read, write, list, remove, mkdir, move, copy],
  code: [search, analyze, format],
  system: [execute, info, env],
  network: [request, download],
  database: [query, update],
};
export { findFormatter } from "./code/support/formatters.ts";
