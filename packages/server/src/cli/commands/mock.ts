import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { ownStreams } from "../../helpers/console-output.ts";
import { whereOf } from "../../helpers/values.ts";
import type { Recording } from "../../rack/index.ts";
import type { recordAnswers } from "../../tests/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { addOthers } from "../rack-tools.ts";
import { amount } from "../text.ts";
import { opening, talkingLogger, withApp } from "../workspace.ts";

export interface MockCommandOptions {
  readonly call?: string;
  readonly session?: string;
  readonly port?: number;
  readonly host?: string;
  readonly stdio?: boolean;
}

type Recorded = Awaited<ReturnType<typeof recordAnswers>>;

/** `toolrack mock`: serves a recording until it is stopped. Nothing runs: every call is answered as it was recorded. */
export async function mock(cli: Cli, file: string | undefined, options: MockCommandOptions): Promise<void> {
  const { call, session, stdio = false } = options;
  if ([file, call, session].filter((one) => one !== undefined).length !== 1)
    throw usageError("Name one recording: --call CALLID, --session ID, or a file of tests.");
  // Opened before any code of the workspace runs, so that only this program can write to the client.
  const streams = stdio ? ownStreams((text) => cli.write(text)) : undefined;
  const recorded = file === undefined ? await fromStore(cli, call, session) : [await fromFile(cli, file)];
  const recording = await toRecording(recorded);
  // A workspace of its own: neither the tools nor the records of the real one are touched.
  const root = await mkdtemp(join(tmpdir(), "toolrack-mock-"));
  try {
    cli.talk(
      `${amount(recording.tools.length, "tool")} of the recording: ${recording.tools.map(({ name }) => name).join(", ")}`,
    );
    await (streams === undefined
      ? serveHttp(cli, root, recording, options)
      : serveStdio(cli, root, recording, streams));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function serveHttp(
  cli: Cli,
  root: string,
  recording: Recording,
  { host, port = 0 }: MockCommandOptions,
): Promise<void> {
  const { serve } = await import("../../rack/index.ts");
  const options = { logger: talkingLogger(cli), recording, port, ...(host !== undefined && { host }) };
  const serving = await opening(cli, root, () => serve(root, options));
  const stopped = cli.untilInterrupt();
  const { url, token } = serving;
  if (cli.json)
    cli.printJsonLine({ type: "ready", url, token, tools: recording.tools.map(({ name }) => name) });
  else
    cli.talk(
      `\nServing the recording at ${url}\nToken ${token}\n\nMCP clients  ${url}/mcp\nThe tools    ${url}/api/tools\n`,
    );
  await stopped;
  await serving.close();
}

async function serveStdio(
  cli: Cli,
  root: string,
  recording: Recording,
  streams: ReturnType<typeof ownStreams>,
): Promise<void> {
  const stopping = new AbortController();
  cli.onInterrupt(() => stopping.abort());
  const { serveStdio: serve } = await import("../../rack/index.ts");
  await opening(cli, root, () =>
    serve(root, { logger: talkingLogger(cli), streams, signal: stopping.signal, recording }),
  );
}

async function fromFile(cli: Cli, given: string): Promise<Recorded> {
  const { answersOf, readTestFile } = await import("../../tests/index.ts");
  const path = resolve(cli.cwd, given);
  const file = await readTestFile(dirname(path), basename(path));
  const [failure] = file.failures;
  if (failure === undefined) return { calls: file.tests.flatMap(answersOf), tools: file.tools };
  throw new CliError(`${whereOf({ ...failure, file: given })}: ${failure.reason} ${failure.remedy}`, {
    code: "no_recording",
    details: { ...failure },
  });
}

/** The recorded calls of the workspace's store. */
async function fromStore(
  cli: Cli,
  call: string | undefined,
  session: string | undefined,
): Promise<Recorded[]> {
  return withApp(cli, {}, async (app) => {
    await using others = new AsyncDisposableStack();
    const { recordAnswers, UnwritableCall } = await import("../../tests/index.ts");
    const { calls } = await app.store();
    const ids = call === undefined ? [] : [call];
    let cursor: string | undefined;
    do {
      if (session === undefined) break;
      const page = await calls.list({ session, top: true, limit: 500, ...(cursor && { cursor }) });
      ids.push(...page.items.map(({ callId }) => callId));
      cursor = page.next;
    } while (cursor !== undefined);
    if (ids.length === 0)
      throw new CliError(`There are no calls of the session "${session}".`, { code: "no_recording" });
    others.defer(await addOthers(cli, app));
    const recorded: Recorded[] = [];
    for (const id of ids.reverse()) {
      try {
        recorded.push(await recordAnswers(id, { calls, registry: app.registry }));
      } catch (thrown) {
        if (!(thrown instanceof UnwritableCall) || call !== undefined) throw thrown;
        cli.talk(`warning: left out: ${thrown.message}`);
      }
    }
    return recorded;
  });
}

/** Makes stand-ins of all recorded tools, and answers of all recorded calls, the inner ones included. */
async function toRecording(recorded: readonly Recorded[]): Promise<Recording> {
  const { RecordedAnswers, standInFor, standInValue } = await import("../../tests/index.ts");
  const tools = new Map(recorded.flatMap((one) => Object.entries(one.tools)));
  const calls = recorded.flatMap((one) => one.calls);
  for (const { tool } of calls) if (!tools.has(tool)) tools.set(tool, { inputSchema: { type: "object" } });
  const options = {
    mode: "strict",
    isServed: true,
    nameOf: (name: string) => name,
    secretOf: standInValue,
  } as const;
  return {
    tools: [...tools].map(([name, tool]) => standInFor(name, tool)),
    mock: new RecordedAnswers({ calls, approve: true }, options),
  };
}
