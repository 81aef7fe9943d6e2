import { ChatError } from "../../chat/chat-error.ts";
import { ProviderError } from "../../chat/model/provider-error.ts";
import { howToConfigure, ModelMissing } from "../../chat/model/providers.ts";
import type { TurnEnd } from "../../chat/turn/turn-event.ts";
import { HttpError } from "../http-error.ts";
import type { HttpErrorCode } from "../http-error-codes.ts";
import type { HttpParts } from "../parts.ts";

/** The service, or a refusal that says how to have one. */
export function requireChat({ chat }: Pick<HttpParts, "chat">): NonNullable<HttpParts["chat"]> {
  if (chat !== undefined) return chat;
  throw new HttpError("provider_missing", howToConfigure, { headers: noRetry });
}

/** Runs a handler whose refusals are those of conversations. */
export async function sayingWhy<Answer>(work: () => Promise<Answer>): Promise<Answer> {
  try {
    return await work();
  } catch (thrown) {
    throw toHttpError(thrown);
  }
}

/** What is said of a turn that ended without an answer; undefined for one that has some. */
export function errorOfEnd(end: TurnEnd): HttpError | undefined {
  const { reason, message = "The model did not answer.", code = "provider_failed" } = end;
  if (reason === "interrupted")
    return new HttpError("stopping", "The server is stopping.", { headers: noRetry });
  if (reason !== "error") return undefined;
  return providerError(code, message, end);
}

/** Tools may have run already. Clients of OpenAI ask again by themselves unless they are told not to. */
const noRetry = { "X-Should-Retry": "false" };

function toHttpError(thrown: unknown): unknown {
  if (thrown instanceof ChatError) return new HttpError(thrown.code, thrown.message, { headers: noRetry });
  if (thrown instanceof ModelMissing) return new HttpError(thrown.code, thrown.message, { headers: noRetry });
  if (thrown instanceof ProviderError) {
    return providerError(`provider_${thrown.kind}`, thrown.message, thrown);
  }
  return thrown;
}

const codes: Readonly<Record<string, HttpErrorCode>> = {
  provider_busy: "provider_busy",
  provider_refused: "provider_refused",
  provider_unauthorized: "provider_unauthorized",
  internal_error: "internal_error",
  unauthorized: "unauthorized",
};

function providerError(
  code: string,
  message: string,
  { retryAfter, details = {} }: Pick<TurnEnd, "retryAfter" | "details"> | ProviderError,
): HttpError {
  const later: Record<string, string> =
    retryAfter === undefined ? {} : { "Retry-After": String(Math.ceil(retryAfter)) };
  const { type, param } = details;
  return new HttpError(codes[code] ?? "provider_failed", message, {
    headers: { ...noRetry, ...later },
    details,
    ...(typeof type === "string" ? { type } : {}),
    ...(typeof param === "string" ? { param } : {}),
  });
}
