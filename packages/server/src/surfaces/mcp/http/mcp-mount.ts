import type { IncomingMessage, ServerResponse } from "node:http";
import { isLegacyRequest } from "@modelcontextprotocol/server";
import type { Grant } from "../../../auth/grant.ts";
import { GrantWatch } from "../../../auth/grant-watch.ts";
import type { EndedCall } from "../../../calls/call-desk.ts";
import type { Mount } from "../../http/mount.ts";
import type { Audience } from "../audience.ts";
import { ChangePublisher } from "../change-publisher.ts";
import type { Exchange } from "../exchange.ts";
import { HotPath } from "../hot/hot-path.ts";
import { modernVersion } from "../hot/hot-request.ts";
import { idOf } from "../id-of.ts";
import { longestMessage } from "../longest-message.ts";
import { mayUseExpert } from "../may-use-expert.ts";
import type { McpParts } from "../mcp-parts.ts";
import { authInfoOf, SdkFaces } from "../sdk-faces.ts";
import { type ExpertResolver, Viewer } from "../viewer.ts";
import { isListen, wantsResources, watchListened } from "../watch-listened.ts";
import { answerHot } from "./answer-hot.ts";
import { answerLegacy, keepBusy } from "./answer-legacy.ts";
import { batchProblem } from "./batch-problem.ts";
import { headerMismatch } from "./header-mismatch.ts";
import { isMcpPath } from "./is-mcp-path.ts";
import { type LegacySession, LegacySessions, type SessionLimits } from "./legacy-sessions.ts";
import { outletOf } from "./outlet-of.ts";
import { readMessage } from "./read-message.ts";
import { metadataChallenge } from "./resource-metadata.ts";
import { sendJsonRpcError } from "./send-json-rpc-error.ts";
import { type StreamOptions, type StreamWatch, sendWebResponse, toWebRequest } from "./web-exchange.ts";

export interface McpMountOptions {
  readonly sessions?: SessionLimits;
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody?: number;
}

const HEADER_MISMATCH = -32020;
const UNANSWERED = "its request could not be answered";

/** The rack at `/mcp` and `/mcp/{expert}`, for clients of all versions of the protocol. */
export function mcpMount(parts: McpParts, options: McpMountOptions = {}): Mount {
  const { maxBody = longestMessage } = options;
  const publisher = new ChangePublisher(parts, (uri) => faces.modern.notify.resourceUpdated(uri));
  const join = (audience: Audience) => publisher.join(audience);
  const sessions = new LegacySessions(parts, options.sessions, join);
  const faces = new SdkFaces(parts, join);
  const hot = new HotPath(parts, faces);
  const grants = new GrantWatch(parts.store.tokens, parts.logger);
  /** Who has no token any more, or whose expert is gone, is told nothing more; calls under way are still answered. */
  const watchFor =
    (viewer: Viewer): StreamWatch =>
    (end) => {
      const stops = [grants.watch(viewer.grant, end), parts.expertWatch.watch(viewer, end)];
      return () => {
        for (const stop of stops) stop();
      };
    };

  const cutOff = (reason: string) => parts.logger.warn(`An MCP client was cut off: ${reason}.`);

  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant) => {
    const asked = viewerOf(incoming, grant, parts.experts);
    if (asked === undefined) return refuseExpert(outgoing);
    const id = sessionIdOf(incoming);
    if (incoming.method !== "POST") {
      if (id === undefined || !ofSessions.has(incoming.method)) return refuseMethod(id, outgoing);
      const session = sessions.find(id, asked);
      if (session === undefined) return refuseSession(outgoing);
      keepBusy(session, outgoing);
      const response = await session.transport.handleRequest(toWebRequest(incoming, outgoing));
      return sendWebResponse(response, incoming, outgoing, { watch: watchFor(asked), cutOff });
    }
    const read = await readMessage(incoming, maxBody);
    if (!read.ok) {
      const { status, code, message, headers = {} } = read;
      return sendJsonRpcError(outgoing, status, code, message, { headers });
    }
    let body: unknown;
    try {
      body = JSON.parse(read.text);
    } catch {
      return sendJsonRpcError(outgoing, 400, -32700, "The body is not JSON.");
    }
    if (typeof body !== "object" || body === null) {
      return sendJsonRpcError(outgoing, 400, -32600, "The body is not a JSON-RPC message.");
    }
    // Looked for once more, and only now: while the body came the expert may have changed, and the session ended.
    const viewer = viewerOf(incoming, grant, parts.experts);
    if (viewer === undefined) return refuseExpert(outgoing);
    const session = id === undefined ? undefined : sessions.find(id, viewer);
    if (id !== undefined && session === undefined) return refuseSession(outgoing);
    const problem = batchProblem(body, session, incoming.headers);
    if (problem !== undefined) return sendJsonRpcError(outgoing, 400, -32600, problem);
    parts.clients.see(body, viewer, session?.server.getClientVersion());
    return new Promise<void>((answered, failed) => {
      const handOn = (begun: Exchange<EndedCall> | undefined) => {
        const served = serveBySdk(viewer, session, incoming, outgoing, body, begun);
        answered(served);
        // Nobody would ever carry it to the client.
        return served.catch(() => begun?.cancel(UNANSWERED));
      };
      answerHot(hot, body, { viewer, session, incoming, outgoing }, { answered, handOn, failed });
    });
  };

  const serveBySdk = async (
    viewer: Viewer,
    session: LegacySession | undefined,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    body: unknown,
    begun: Exchange<EndedCall> | undefined,
  ) => {
    const request = toWebRequest(incoming, outgoing);
    const given = { parsedBody: body, authInfo: authInfoOf(viewer, begun, outletOf(outgoing)) };
    const send = (response: Response, options?: StreamOptions) => {
      if (!response.ok) begun?.cancel(UNANSWERED);
      return sendWebResponse(response, incoming, outgoing, { cutOff, ...options });
    };
    if (!(await isLegacyRequest(request, body))) {
      const mismatch = headerMismatch(parts, viewer, body, incoming.headers);
      if (mismatch !== undefined) {
        begun?.cancel(UNANSWERED);
        return sendJsonRpcError(outgoing, 400, HEADER_MISMATCH, mismatch, { id: idOf(body) });
      }
      if (!isListen(body)) return send(await faces.modern.fetch(request, given));
      const watch = watchFor(viewer);
      if (!wantsResources(body)) return send(await faces.listen(viewer, request, body), { watch });
      const listened = await watchListened(parts, viewer, body);
      outgoing.once("close", listened.stop);
      if (outgoing.closed) listened.stop();
      return send(await faces.listen(viewer, request, listened.message), { watch });
    }
    const isNew = session === undefined && isInitialize(body);
    const opened = isNew ? await sessions.open(viewer) : session;
    if (!isNew || opened !== undefined) {
      const { stateless } = faces;
      const { authInfo } = given;
      const place = { request, incoming, outgoing, session: opened, stateless, authInfo, cutOff };
      try {
        const isAnswered = await answerLegacy(place, body, begun);
        if (!isAnswered) begun?.cancel(UNANSWERED);
      } finally {
        if (isNew && opened !== undefined) sessions.discard(opened);
      }
      return;
    }
    const advice = `There are as many sessions as this server keeps, all of them busy. End one that is no longer needed, or use the version ${modernVersion}, which needs none.`;
    sendJsonRpcError(outgoing, 503, -32001, advice, { id: idOf(body) });
  };

  return {
    access: "token",
    owns: isMcpPath,
    handle: (incoming, outgoing, grant) => handle(incoming, outgoing, grant!), // `access` says that there is one.
    challenge: metadataChallenge,
    close() {
      publisher.stop();
      sessions.close();
      void faces.modern.close();
    },
  };
}

/** Grants stay the same from one request to the next, and so does what their bearers see. */
const wholeViewers = new WeakMap<Grant, Viewer>();

function wholeViewerOf(grant: Grant): Viewer {
  const known = wholeViewers.get(grant);
  if (known !== undefined) return known;
  const viewer = new Viewer(grant);
  wholeViewers.set(grant, viewer);
  return viewer;
}

function viewerOf(
  { url = "/" }: IncomingMessage,
  grant: Grant,
  experts: ExpertResolver | undefined,
): Viewer | undefined {
  if (url === "/mcp") return wholeViewerOf(grant);
  const end = url.indexOf("?");
  const path = end === -1 ? url : url.slice(0, end);
  if (path === "/mcp" || path === "/mcp/") return wholeViewerOf(grant);
  const name = decode(path.slice("/mcp/".length));
  const expert = name === undefined ? undefined : experts?.(name);
  return expert !== undefined && mayUseExpert(grant, expert) ? new Viewer(grant, expert) : undefined;
}

function isInitialize(body: unknown): boolean {
  return (body as { method?: unknown } | null)?.method === "initialize";
}

/** The newer version has no sessions: what its clients send of one is of no account. */
function sessionIdOf({ headers }: IncomingMessage): string | undefined {
  const id = headers["mcp-session-id"];
  return typeof id === "string" && headers["mcp-protocol-version"] !== modernVersion ? id : undefined;
}

/** Only sessions have a stream to be read, and an end. */
const ofSessions: ReadonlySet<unknown> = new Set(["GET", "DELETE"]);

function refuseMethod(id: string | undefined, outgoing: ServerResponse): void {
  const headers = { Allow: id === undefined ? "POST" : "GET, POST, DELETE" };
  const advice =
    "Messages are sent by POST. GET and DELETE are for sessions, which are named by Mcp-Session-Id.";
  sendJsonRpcError(outgoing, 405, -32000, advice, { headers });
}

function refuseExpert(outgoing: ServerResponse): void {
  const advice = "There is no such expert for this token. Ask for its name, or for a token that may use it.";
  sendJsonRpcError(outgoing, 404, -32001, advice);
}

/** By this status a client knows that it has to begin anew. */
function refuseSession(outgoing: ServerResponse): void {
  sendJsonRpcError(outgoing, 404, -32001, "There is no such session. Initialize a new one.");
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
