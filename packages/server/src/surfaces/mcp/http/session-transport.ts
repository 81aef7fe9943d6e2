import {
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { cancellationsIn } from "../cancellations-in.ts";
import { requestIdOf } from "../request-id-of.ts";

type Id = string | number;
type Message = Parameters<WebStandardStreamableHTTPServerTransport["send"]>[0];

/** The requests that came in one POST, and are answered on one stream. */
interface Post {
  readonly ids: readonly Id[];
  readonly waiting: Set<Id>;
  readonly cancelled: Set<Id>;
  /** The SDK has made the stream. */
  isOpen: boolean;
}

/**
 * The SDK's transport of a session, which ends a stream when everything on it has been answered, and waits for ever for
 * the answer to a request that was cancelled. Here a stream ends with the last answer that somebody still waits for.
 */
export class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #posts = new Map<Id, Post>();

  /** Whether a request of this id was taken and has not been answered. In a batch, until all of it is. */
  isUnderWay(id: Id): boolean {
    return this.#posts.has(id);
  }

  override async handleRequest(
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ): Promise<Response> {
    const body = options?.parsedBody;
    const ids = requestIdsIn(body);
    const isAsking = ids.length > 0;
    const response = await (isAsking
      ? this.#take(ids, request, options)
      : super.handleRequest(request, options));
    for (const { requestId } of cancellationsIn(body)) this.#giveUp(requestId);
    return response;
  }

  override async send(
    ...[message, options]: Parameters<WebStandardStreamableHTTPServerTransport["send"]>
  ): Promise<void> {
    const id = answeredBy(message);
    const post = id === undefined ? undefined : this.#posts.get(id);
    if (id === undefined || post === undefined) return super.send(message, options);
    // It may have been cancelled before the SDK knew of it.
    if (post.cancelled.has(id)) return;
    try {
      await super.send(message, options);
    } finally {
      post.waiting.delete(id);
      this.#endIfDone(post);
    }
  }

  async #take(
    ids: readonly Id[],
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ): Promise<Response> {
    const post: Post = { ids, waiting: new Set(ids), cancelled: new Set(), isOpen: false };
    for (const id of ids) this.#posts.set(id, post);
    let isTaken = false;
    try {
      const response = await super.handleRequest(request, options);
      isTaken = response.ok;
      return response;
    } finally {
      post.isOpen = true;
      if (!isTaken) post.waiting.clear();
      this.#endIfDone(post);
    }
  }

  /** A request that was cancelled gets no answer. */
  #giveUp(id: Id): void {
    const post = this.#posts.get(id);
    if (post === undefined || !post.waiting.delete(id)) return;
    post.cancelled.add(id);
    this.#endIfDone(post);
  }

  #endIfDone({ ids, waiting, cancelled, isOpen }: Post): void {
    if (waiting.size > 0 || !isOpen) return;
    for (const id of ids) this.#posts.delete(id);
    for (const id of cancelled) this.closeSSEStream(id);
    // What has no stream any more reaches nobody, and the SDK forgets the request.
    for (const id of cancelled) void super.send(nothing(id)).catch(() => {});
  }
}

function requestIdsIn(body: unknown): Id[] {
  return [body].flat().flatMap((message) => requestIdOf(message) ?? []);
}

function answeredBy(message: Message): Id | undefined {
  return isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message) ? message.id : undefined;
}

function nothing(id: Id): Message {
  return { jsonrpc: "2.0", id, result: {} };
}
