import { setTimeout as wait } from "node:timers/promises";
import { type LogLine, type LogQuery, matcher, parse, readLog } from "../../calls/log-line.ts";

import type { Cli } from "../cli.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatLogLine } from "../logs/format-log-line.ts";
import { LogFollower } from "../logs/log-follower.ts";
import { parseDuration } from "../text/duration.ts";
import { withApp } from "../with-app.ts";

export interface LogsOptions {
  readonly follow?: boolean;
  readonly tool?: string;
  readonly status?: "success" | "error";
  readonly since?: string;
  /** 0 for all. */
  readonly limit: number;
  readonly ids?: boolean;
}

const POLL = 200;

/** `toolrack logs`: the last calls of the log, and with `--follow` those to come. */
export async function logs(cli: Cli, options: LogsOptions): Promise<number> {
  const query = await queryOf(options);
  // Only the config is needed, to know where the log is.
  const file = await withApp(cli, { folders: [] }, async ({ log }) => log.file);
  const follower = options.follow === true ? await LogFollower.atEnd(file) : undefined;
  const lines = await lastLines(file, query, options.limit);
  const show = (line: LogLine) =>
    cli.json ? cli.printJsonLine(line) : cli.print(formatLogLine(cli, line, options.ids === true));
  for (const line of lines) show(line);
  if (follower !== undefined) await follow(cli, follower, lines, query, show);
  else if (lines.length === 0) cli.talk(`No calls in ${file} fit.`);
  return exitCodes.ok;
}

async function queryOf({ tool, status, since }: LogsOptions): Promise<LogQuery> {
  const query = {
    ...(tool === undefined ? {} : { tool }),
    ...(status === undefined ? {} : { status }),
    ...(since === undefined ? {} : { startTime: startOf(since) }),
  };
  try {
    await matcher(query);
  } catch (thrown) {
    throw usageError((thrown as Error).message);
  }
  return query;
}

function startOf(since: string): number {
  const time = Date.parse(since);
  // Some engines read "10m" as a date; what begins like a year is one.
  if (/^\d{4}-/.test(since) && !Number.isNaN(time)) return time;
  try {
    return Date.now() - parseDuration(since, "--since");
  } catch {
    throw usageError(
      `--since "${since}" is neither a duration, such as 10m, 2h or 7d, nor a time, such as 2026-03-15T02:29:40Z.`,
    );
  }
}

async function lastLines(file: string, query: LogQuery, limit: number): Promise<LogLine[]> {
  let lines: LogLine[] = [];
  for await (const line of readLog(file, query)) {
    lines.push(line);
    // Cut now and then, so that a long log does not have to fit into memory.
    if (limit > 0 && lines.length >= limit * 2) lines = lines.slice(-limit);
  }
  return limit > 0 ? lines.slice(-limit) : lines;
}

/** Until Ctrl-C, which is how following ends and no failure. */
async function follow(
  cli: Cli,
  follower: LogFollower,
  shown: readonly LogLine[],
  query: LogQuery,
  show: (line: LogLine) => void,
): Promise<void> {
  const end = new AbortController();
  cli.onInterrupt(() => end.abort());
  const fits = await matcher(query);
  // The follower began before the file was read, so that nothing falls between the two; what came meanwhile is
  // known to both.
  const known = new Set(shown.map((line) => JSON.stringify(line)));
  while (!end.signal.aborted) {
    for (const text of await follower.read()) {
      const line = parse(text);
      if (line !== undefined && fits(line) && !known.delete(JSON.stringify(line))) show(line);
    }
    await wait(POLL, undefined, { signal: end.signal }).catch(() => {});
  }
  await follower.close();
}
