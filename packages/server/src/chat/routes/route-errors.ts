import type { ExtensionParts, Route, RouteRequest } from "../../http/wire/index.ts";
import { HttpError, type HttpErrorCode, setRequestId } from "../../http/wire/index.ts";
import type { ChatService } from "../chat-service.ts";
import { failedEnd } from "../engine.ts";
import { ChatError, ProviderError } from "../errors.ts";
import { howToConfigure } from "../providers.ts";
import { requireChatGrant } from "../services.ts";
import { type TurnEnd, whyFailed } from "../turn.ts";

/** Returns the chat service. Throws a refusal that says how to configure one. */
export function requireChat({ chat }: Pick<ChatRouteParts, "chat">): ChatService {
  if (chat !== undefined) return chat;
  throw new HttpError("provider_missing", howToConfigure, { headers: noRetry });
}

/**
 * The same route, for tokens that may chat only, with chat errors turned into the API's errors and an id of
 * the request in every answer.
 */
export function withHttpErrors(route: Route): Route {
  return {
    ...route,
    errors: [...new Set([...(route.errors ?? []), "chat_forbidden"] as const)],
    admit(grant) {
      try {
        requireChatGrant(grant);
      } catch (thrown) {
        throw toHttpError(thrown);
      }
    },
    async handle(request: RouteRequest<never, never, never>) {
      setRequestId(request.outgoing);
      try {
        return await route.handle(request);
      } catch (thrown) {
        throw toHttpError(thrown);
      }
    },
  };
}

/**
 * OpenAI's clients retry failures unless told not to, and the rack has retried already where that helps. Only when it is
 * stopping can another server answer.
 */
const noRetry = { "X-Should-Retry": "false" };

/** The errors of every route that begins a turn. */
export const turnErrors: readonly HttpErrorCode[] = [
  "expert_not_found",
  "model_not_found",
  "provider_busy",
  "provider_failed",
  "provider_missing",
  "provider_refused",
  "provider_unauthorized",
  "stopping",
];

/** Codes of failed turns that become the code of the HTTP error. All others become `provider_failed`. */
const codes: readonly HttpErrorCode[] = [
  "chat_cancelled",
  "provider_busy",
  "provider_refused",
  "provider_unauthorized",
  "internal_error",
  "store_unavailable",
  "unauthorized",
];

/** The error for a turn that ended without an answer; undefined when there is an answer. */
export function errorOfEnd(end: TurnEnd, mayRetry = false): HttpError | undefined {
  const { reason, retryAfter, details = {} } = end;
  const message = whyFailed(end);
  if (reason === "interrupted") return new HttpError("stopping", message);
  if (reason !== "error") return undefined;
  const later = retryAfter === undefined ? undefined : { "Retry-After": String(Math.ceil(retryAfter)) };
  const { type, param } = details;
  return new HttpError(codes.find((code) => code === end.code) ?? "provider_failed", message, {
    headers: { ...(mayRetry ? {} : noRetry), ...later },
    details,
    ...(typeof type === "string" ? { type } : {}),
    ...(typeof param === "string" ? { param } : {}),
  });
}

function toHttpError(thrown: unknown): unknown {
  if (thrown instanceof ChatError) {
    const { code, message, param } = thrown;
    const headers = code === "stopping" ? {} : noRetry;
    return new HttpError(code, message, { headers, ...(param === undefined ? {} : { param }) });
  }
  return thrown instanceof ProviderError ? errorOfEnd(failedEnd(thrown)) : thrown;
}

export interface ChatRouteParts extends ExtensionParts {
  /** Undefined when no chat is configured. */
  readonly chat: ChatService | undefined;
}
