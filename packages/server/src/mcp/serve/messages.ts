import type { IncomingMessage } from "node:http";
import {
  type JSONRPCMessage,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
  type Transport,
} from "@modelcontextprotocol/server";
import { type ClientMethod, compileSchema } from "@toolrack/core";
import { isRecord } from "../../helpers/index.ts";
import type { Mount } from "../../http/wire/index.ts";
import type { Binding } from "./held-exchanges.ts";
import type { ListKind, Viewer } from "./lists.ts";

/** How long answers may take to be made once the calls behind them have ended, in milliseconds. */
const LAST_WORDS = 1_000;

/** The same mount, which closes when what it was asked has been answered: the answer to a call is made after its end. */
export function answersFirst(mount: Mount): Mount {
  let unanswered = 0;
  let whenAnswered = () => {};
  // One function for all answers, and a mere count: what is kept of every request costs more than the request.
  const leave = () => {
    if (--unanswered === 0) whenAnswered();
  };
  const answered = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LAST_WORDS);
      whenAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
      if (unanswered === 0) whenAnswered();
    });
  return {
    ...mount,
    handle(incoming, outgoing, grant) {
      const handled = mount.handle(incoming, outgoing, grant);
      if (handled === undefined || isEndless(incoming)) return handled;
      unanswered++;
      handled.then(leave, leave);
      return handled;
    },
    async close() {
      await answered();
      await mount.close?.();
    },
  };
}

/** Streams by which a client listens end with the mount. */
function isEndless({ method, headers }: IncomingMessage): boolean {
  return method !== "POST" || headers["mcp-method"] === "subscriptions/listen";
}

interface Cancellation {
  readonly requestId: string | number;
  readonly reason?: string;
}

const none: readonly never[] = Object.freeze([]);

/** What a message cancels, or a batch of them. One that names no request cancels nothing. */
export function cancellationsIn(body: unknown): readonly Cancellation[] {
  if (Array.isArray(body)) return body.flatMap((message) => cancellationOf(message) ?? none);
  const single = cancellationOf(body);
  return single === undefined ? none : [single];
}

/** The same for one message alone. */
export function cancellationOf(message: unknown): Cancellation | undefined {
  if (!isRecord(message) || message.method !== "notifications/cancelled") return undefined;
  const { requestId, reason } = isRecord(message.params) ? message.params : {};
  if (typeof requestId !== "string" && typeof requestId !== "number") return undefined;
  return typeof reason === "string" ? { requestId, reason } : { requestId };
}

/** The id by which a message is answered, whatever else is wrong with it; null where it has none. */
export function idOf(message: unknown): string | number | null {
  const { id } = (message ?? {}) as { id?: unknown };
  return isId(id) ? id : null;
}

export function isId(id: unknown): id is string | number {
  return typeof id === "string" || typeof id === "number";
}

/** The id of a message that wants an answer; undefined for any other. */
export function requestIdOf(message: unknown): string | number | undefined {
  if (!isRecord(message) || typeof message.method !== "string") return undefined;
  const { id } = message;
  return isId(id) ? id : undefined;
}

/** What a client is told that uses an id again before it has the answer to the request that had it first. */
export function reusedId(id: string | number): { readonly code: number; readonly message: string } {
  const shown = JSON.stringify(id).slice(0, LONGEST);
  return {
    code: ProtocolErrorCode.InvalidRequest,
    message: `A request with the id ${shown} is still under way, so that this one was not begun. Send it again with an id that no other request has.`,
  };
}

/** Ids are as long as whoever chose them liked. */
const LONGEST = 100;

type Id = string | number;

/** How many messages may come at once. As many as the SDK takes. */
export const mostInBatch = 100;

export function batchTooLong(length: number): string {
  return `A batch may have ${mostInBatch} messages, and this one has ${length}. Send them in several.`;
}

interface SiftedBatch {
  /** What is left to be answered. */
  readonly messages: readonly unknown[];
  readonly hasRequests: boolean;
  /** The ids of requests that have one that another request has. */
  readonly reused: readonly Id[];
}

/**
 * Takes out of a batch what the SDK would answer on the wrong stream or never: requests with an id that is under way, and
 * those that the same batch cancels again, which are not even begun.
 */
export function siftBatch(batch: readonly unknown[], isUnderWay: (id: Id) => boolean): SiftedBatch {
  const reused: Id[] = [];
  const open = new Map<Id, unknown>();
  const given = batch.filter((message) => {
    const id = requestIdOf(message);
    if (id === undefined) return true;
    if (open.has(id) || isUnderWay(id)) {
      reused.push(id);
      return false;
    }
    open.set(id, message);
    return true;
  });
  const withdrawn = new Set<unknown>();
  const begun = new Set<Id>();
  for (const message of given) {
    const id = requestIdOf(message);
    if (id !== undefined) begun.add(id);
    const cancelled = cancellationOf(message)?.requestId;
    if (cancelled === undefined || !open.has(cancelled)) continue;
    // One that comes before its request means nothing, though the SDK would take it to mean that request.
    withdrawn.add(message);
    if (begun.has(cancelled)) withdrawn.add(open.get(cancelled));
  }
  const messages = given.filter((message) => !withdrawn.has(message));
  return { messages, hasRequests: messages.some((message) => requestIdOf(message) !== undefined), reused };
}

/** Notifications and answers are never answered, whatever is wrong with them. */
export function wantsAnswer(message: unknown): boolean {
  if (typeof message !== "object" || message === null) return true;
  if ("result" in message || "error" in message) return false;
  return "id" in message || !("method" in message) || typeof message.method !== "string";
}

/** Whether a value from outside is an answer to a question of this kind. What was entered must fit what was asked for. */
export function isAcceptable(method: ClientMethod, params: object, value: unknown): boolean {
  if (!isRecord(value)) return false;
  switch (method) {
    case "elicitation/create":
      return isElicitation(params, value);
    case "sampling/createMessage":
      return typeof value.role === "string" && typeof value.content === "object" && value.content !== null;
    case "roots/list":
      return Array.isArray(value.roots);
  }
}

function isElicitation(params: object, { action, content }: Record<string, unknown>): boolean {
  if (action === "decline" || action === "cancel") return true;
  if (action !== "accept") return false;
  const { requestedSchema } = params as { requestedSchema?: unknown };
  if (!isRecord(requestedSchema) || content === undefined) return true;
  try {
    const outcome = compileSchema(requestedSchema).validate(content);
    // A schema of plain JSON Schema is checked at once; any other could not have been sent.
    return outcome instanceof Promise || outcome.ok;
  } catch {
    return true; // A schema that cannot be used is the asker's fault, not the client's.
  }
}

/** The longest message that a client may send, in bytes, whichever way it comes. */
export const longestMessage = 10 * 1024 * 1024;

/**
 * The SDK says what is wrong with the parameters of a request by a list of problems in JSON, perhaps after a few words.
 * The same as a sentence; undefined when the text is anything else.
 */
export function paramsProblem(method: string, text: string): string | undefined {
  const start = text.indexOf("[");
  if (start === -1 || !text.endsWith("]")) return undefined;
  const problems = problemsIn(text.slice(start));
  return problems && `The parameters of ${method} do not fit: ${problems.join("; ")}.`;
}

function problemsIn(json: string): string[] | undefined {
  try {
    const issues: unknown = JSON.parse(json);
    return Array.isArray(issues) && issues.length > 0 ? issues.map(toProblem) : undefined;
  } catch {
    return undefined;
  }
}

/** Throws for what is no problem as the SDK writes them. */
function toProblem(issue: unknown): string {
  if (!isRecord(issue) || !Array.isArray(issue.path) || typeof issue.message !== "string") throw new Error();
  const [root, ...rest] = issue.path;
  const place = (root === "params" ? rest : issue.path).join(".");
  return place === "" ? issue.message : `${place}: ${issue.message}`;
}

/**
 * Versions before 2026-07-28 have a code of their own for a resource that there is not. The SDK sends the newer one to
 * everybody, whatever it is told, so that it is changed on its way out.
 */
export function withOlderCodes<Connection extends Transport>(transport: Connection): Connection {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => send(inOlderCode(message), options);
  return transport;
}

function inOlderCode(message: JSONRPCMessage): JSONRPCMessage {
  if (!("error" in message)) return message;
  const { code, data } = message.error;
  // As the SDK has it: wrong parameters of which nothing is said but the address are a resource that there is not.
  const isMissing =
    code === ProtocolErrorCode.InvalidParams && isRecord(data) && typeof data.uri === "string";
  if (!isMissing || Object.keys(data).length > 1) return message;
  return { ...message, error: { ...message.error, code: ProtocolErrorCode.ResourceNotFound } };
}

/** Tells the client of this server that a list has changed. Whether it hears it is of no account. */
export function tellServer(server: Server, kind: ListKind): void {
  void senders[kind](server).catch(() => {});
}

const senders: Readonly<Record<ListKind, (server: Server) => Promise<void>>> = {
  tools: (server) => server.sendToolListChanged(),
  prompts: (server) => server.sendPromptListChanged(),
  resources: (server) => server.sendResourceListChanged(),
};

/** Whose request this is, and of which kind; a state that comes with it must have been given to the same for the same. */
export function bindingOf(viewer: Viewer, { mcpReq }: ServerContext): Binding {
  return { principal: viewer.principal, method: mcpReq.method };
}
