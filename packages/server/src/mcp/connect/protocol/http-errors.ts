import { STATUS_CODES } from "node:http";
import { asRecord, isRecord, parsedJson } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import { sentence, UpstreamError } from "../failures.ts";
import type { HttpAnswer } from "./http-client.ts";

const LONGEST_TEXT = 300;

/** Turns the error of a JSON-RPC answer into an `UpstreamError`. */
export function refusal(error: unknown): UpstreamError {
  const { code, message, data } = asRecord(error);
  const text = typeof message === "string" ? message : "The server refused and gave no reason.";
  return new UpstreamError("refused", text, { ...(typeof code === "number" ? { code } : {}), data });
}

/**
 * Turns an HTTP answer with an error status into an `UpstreamError`. `id`: the id of the request. `hasSession`:
 * whether the request was sent in a session.
 */
export async function refusalIn(
  answer: HttpAnswer,
  id: unknown,
  hasSession: boolean,
): Promise<UpstreamError> {
  const { status } = answer;
  const text = await answer.text();
  const body = parsedJson(text);
  const error = isRecord(body) && isRecord(body.error) ? body.error : undefined;
  const isAboutRequest = error !== undefined && isRecord(body) && body.id === id;
  const reason = messageIn(body) ?? text;
  const challenge = status === 403 ? await challengeIn(answer) : {};
  const isScope = challenge.error === "insufficient_scope";
  const retryAfter = waitIn(answer.header("retry-after"));
  const facts = {
    status,
    code: typeof error?.code === "number" ? error.code : undefined,
    data: error?.data,
    retryAfter,
    scope: isScope ? (challenge.scope ?? "") : undefined,
  };
  if (status === 401) return new UpstreamError("unauthorized", describeStatus(status, text), facts);
  const isLost = hasSession && isLostSession(status, reason, isAboutRequest ? error.code : undefined);
  // A JSON-RPC error about the request itself is clear without the status.
  const message = isAboutRequest && !isLost ? reason : describeStatus(status, text);
  const whole = retryAfter === undefined ? message : `${sentence(message)} It asks to wait ${retryAfter} s.`;
  return new UpstreamError(isLost ? "session" : "refused", whole, facts);
}

/** Reads the `WWW-Authenticate` header. Imports the SDK late, because most racks never need it. */
async function challengeIn(
  answer: HttpAnswer,
): Promise<{ readonly error?: string; readonly scope?: string }> {
  const { extractWWWAuthenticateParams } = await import("@modelcontextprotocol/client");
  const headers = { "www-authenticate": answer.header("www-authenticate") ?? "" };
  return extractWWWAuthenticateParams(new Response(null, { status: answer.status, headers }));
}

/** Error codes by which servers refuse an unknown or missing session. */
const sessionCodes: ReadonlySet<unknown> = new Set([rpcCodes.refused, rpcCodes.unavailable]);

/**
 * Whether an answer means that the server has forgotten our session. It should then answer 404, but several
 * servers answer 400. `code`: the code of a JSON-RPC error about the request itself; the text of such an error
 * may mean another kind of session.
 */
function isLostSession(status: number, reason: string, code: unknown): boolean {
  const isAboutSession = /session/i.test(reason);
  if (status === 404) return code === undefined || isAboutSession;
  return status === 400 && isAboutSession && (code === undefined || sessionCodes.has(code));
}

/** How long the server asks to wait, in seconds. The header holds seconds or a date. */
function waitIn(header = ""): number | undefined {
  const given = header.trim();
  if (given === "") return undefined;
  const seconds = /^\d+$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}

/** Describes an HTTP status, with the text of the answer if people can read it. */
function describeStatus(status: number, text: string): string {
  const name = [status, STATUS_CODES[status]].filter(Boolean).join(" ");
  if (/^\s*</.test(text)) return `It answered with ${name} and a page of HTML.`;
  const reason = (messageIn(parsedJson(text)) ?? text).trim().slice(0, LONGEST_TEXT);
  return reason === "" ? `It answered with ${name}.` : sentence(`It answered with ${name}: ${reason}`);
}

/** The error message in a JSON body of JSON-RPC, OAuth or another common form. */
function messageIn(body: unknown): string | undefined {
  if (!isRecord(body)) return undefined;
  const inside = isRecord(body.error) ? body.error.message : undefined;
  return [inside, body.error_description, body.message, body.detail, body.error].find(
    (text): text is string => typeof text === "string" && text !== "",
  );
}

/** Error codes of a connection that broke after it was made. */
const brokenCodes: ReadonlySet<unknown> = new Set(["ECONNRESET", "EPIPE", "ESOCKETTIMEDOUT"]);

/**
 * Turns an error of a request into an `UpstreamError`; undefined for other errors. A connection that broke
 * concerns only one request (`broken`). A connection that could not be made means that the server is not there
 * (`unavailable`).
 */
export function lostConnection(error: unknown): UpstreamError | undefined {
  // Node gives each of them a code: `ECONNREFUSED`, `HPE_INVALID_CONSTANT`, `CERT_HAS_EXPIRED` and many more.
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return undefined;
  const { code } = error;
  // When several addresses were tried, each has its own error. The first one is shown.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined;
  const reason = error.message || (first instanceof Error ? first.message : "");
  if (brokenCodes.has(code)) {
    const why = reason === "" || reason === code ? code : `${reason}, ${code}`;
    const message = `The connection was closed before the answer came (${why}). What it had already done may stand: check before calling it again.`;
    return new UpstreamError("broken", message, { cause: error });
  }
  const said = reason || code;
  const message = sentence(`It cannot be reached: ${said}`);
  return new UpstreamError("unavailable", message, {
    why: { code: "unreachable", details: { said } },
    cause: error,
  });
}
