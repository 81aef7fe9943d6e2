import type { IncomingMessage, ServerResponse } from "node:http";
import { isLegacyRequest } from "@modelcontextprotocol/server";
import type { Grant } from "../../../auth/grant.ts";
import type { EndedCall } from "../../../calls/call-desk.ts";
import type { Mount } from "../../http/mount.ts";
import type { Exchange } from "../exchange.ts";
import { HotPath } from "../hot/hot-path.ts";
import type { McpParts } from "../mcp-parts.ts";
import { publishChanges } from "../publish-changes.ts";
import { authInfoOf, SdkFaces } from "../sdk-faces.ts";
import { type ExpertResolver, Viewer } from "../viewer.ts";
import { wantsResources, watchListened } from "../watch-listened.ts";
import { answerHot } from "./answer-hot.ts";
import { headerMismatch } from "./header-mismatch.ts";
import { type LegacySession, LegacySessions, type SessionLimits } from "./legacy-sessions.ts";
import { readMessage } from "./read-message.ts";
import { metadataChallenge } from "./resource-metadata.ts";
import { sendJsonRpcError } from "./send-json-rpc-error.ts";
import { sendWebResponse, toWebRequest } from "./web-exchange.ts";

export interface McpMountOptions {
  readonly experts?: ExpertResolver;
  readonly sessions?: SessionLimits;
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody?: number;
}

const USUAL_BODY = 10 * 1024 * 1024;
const HEADER_MISMATCH = -32020;

/** The rack at `/mcp` and `/mcp/{expert}`, for clients of all versions of the protocol. */
export function mcpMount(parts: McpParts, options: McpMountOptions = {}): Mount {
  const { experts, maxBody = USUAL_BODY } = options;
  const sessions = new LegacySessions(parts, options.sessions);
  const faces = new SdkFaces(parts);
  const hot = new HotPath(parts, faces);
  const unsubscribe = publishChanges(parts, faces.modern.notify, sessions);

  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse, grant: Grant) => {
    const viewer = incoming.url === "/mcp" ? wholeViewerOf(grant) : await viewerOf(incoming, grant, experts);
    if (viewer === undefined) return sendJsonRpcError(outgoing, 404, -32001, "There is no such expert.");
    const id = incoming.headers["mcp-session-id"];
    const session = typeof id === "string" ? sessions.find(id, viewer) : undefined;
    if (incoming.method !== "POST") {
      if (session !== undefined) return serveSession(session, incoming, outgoing);
      return refuseMethod(id, outgoing);
    }
    const read = await readMessage(incoming, maxBody);
    if (!read.ok) return sendJsonRpcError(outgoing, read.status, read.code, read.message);
    let body: unknown;
    try {
      body = JSON.parse(read.text);
    } catch {
      return sendJsonRpcError(outgoing, 400, -32700, "The body is not JSON.");
    }
    if (typeof body !== "object" || body === null) {
      return sendJsonRpcError(outgoing, 400, -32600, "The body is not a JSON-RPC message.");
    }
    if (typeof id === "string" && session === undefined) return refuseSession(outgoing);
    parts.clients.see(body, viewer, session?.server.getClientVersion());
    return new Promise<void>((answered, failed) => {
      const handOn = (begun: Exchange<EndedCall> | undefined) =>
        answered(serveBySdk(viewer, session, incoming, outgoing, body, begun));
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
    const given = { parsedBody: body, authInfo: authInfoOf(viewer, begun) };
    if (!(await isLegacyRequest(request, body))) {
      const mismatch = headerMismatch(parts, viewer, body, incoming.headers);
      if (mismatch !== undefined) {
        return sendJsonRpcError(outgoing, 400, HEADER_MISMATCH, mismatch, { id: idOf(body) });
      }
      if (!wantsResources(body))
        return sendWebResponse(await faces.modern.fetch(request, given), incoming, outgoing);
      const listened = await watchListened(parts, viewer, body);
      outgoing.once("close", listened.stop);
      if (outgoing.closed) listened.stop();
      const parsedBody = listened.message;
      const response = await faces.modern.fetch(request, { ...given, parsedBody });
      return sendWebResponse(response, incoming, outgoing);
    }
    if (session !== undefined) {
      await serveSession(session, incoming, outgoing, given);
      endCancelled(session, body);
      return;
    }
    if (!isInitialize(body))
      return sendWebResponse(await faces.stateless(request, given), incoming, outgoing);
    const opened = await sessions.open(viewer);
    if (opened !== undefined) return serveSession(opened, incoming, outgoing, given);
    const advice = "There are as many sessions as this server keeps, all of them busy.";
    sendJsonRpcError(outgoing, 503, -32001, advice, { id: idOf(body) });
  };

  return {
    access: "token",
    owns: (path) => path === "/mcp" || /^\/mcp\/[^/]+$/.test(path),
    handle: (incoming, outgoing, grant) => handle(incoming, outgoing, grant!), // `access` says that there is one.
    challenge: metadataChallenge,
    close() {
      unsubscribe();
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

async function viewerOf(
  { url = "/" }: IncomingMessage,
  grant: Grant,
  experts: ExpertResolver | undefined,
): Promise<Viewer | undefined> {
  const end = url.indexOf("?");
  const path = end === -1 ? url : url.slice(0, end);
  if (path === "/mcp") return wholeViewerOf(grant);
  const name = decode(path.slice("/mcp/".length));
  const expert = name === undefined ? undefined : await experts?.(name);
  if (expert === undefined) return undefined;
  const mayUse = grant.mayUseExpert(expert.name) || grant.mayUseExpert(expert.id);
  return mayUse ? new Viewer(grant, expert) : undefined;
}

async function serveSession(
  session: LegacySession,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  given: Parameters<LegacySession["transport"]["handleRequest"]>[1] = {},
): Promise<void> {
  session.busy++;
  outgoing.once("close", () => {
    session.busy--;
    session.usedAt = Date.now();
  });
  const response = await session.transport.handleRequest(toWebRequest(incoming, outgoing), given);
  await sendWebResponse(response, incoming, outgoing);
}

/** The SDK answers no request that was cancelled, and would keep its stream open for ever. */
function endCancelled({ transport }: LegacySession, body: unknown): void {
  const { method, params } = body as { method?: unknown; params?: { requestId?: unknown } | null };
  const requestId = params?.requestId;
  if (method !== "notifications/cancelled") return;
  if (typeof requestId === "string" || typeof requestId === "number") transport.closeSSEStream(requestId);
}

function isInitialize(body: unknown): boolean {
  return (body as { method?: unknown } | null)?.method === "initialize";
}

/** Only sessions have a stream to be read, and an end. */
function refuseMethod(id: unknown, outgoing: ServerResponse): void {
  if (typeof id === "string") refuseSession(outgoing);
  else sendJsonRpcError(outgoing, 405, -32000, "Method not allowed.", { headers: { Allow: "POST" } });
}

/** By this status a client knows that it has to begin anew. */
function refuseSession(outgoing: ServerResponse): void {
  sendJsonRpcError(outgoing, 404, -32001, "There is no such session. Initialize a new one.");
}

function idOf(body: unknown): string | number | null {
  const { id } = body as { id?: unknown };
  return typeof id === "string" || typeof id === "number" ? id : null;
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
