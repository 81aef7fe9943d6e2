import { isRecord } from "../../../json/is-record.ts";
import type { CompletionAnswer, PromptAnswer, ResourceAnswer } from "../../../offerings/offering-source.ts";
import { UpstreamError } from "../protocol/upstream-error.ts";

/** The answer to `prompts/get`. Throws where it is of another form, which nobody who asked could read. */
export function promptAnswer(given: unknown): PromptAnswer {
  const isGood =
    isRecord(given) &&
    Array.isArray(given.messages) &&
    given.messages.every(
      (message) =>
        isRecord(message) &&
        (message.role === "user" || message.role === "assistant") &&
        isRecord(message.content) &&
        typeof message.content.type === "string",
    );
  if (!isGood) throw odd("prompts/get", "messages with a role and a content");
  const { description, ...rest } = given;
  // The form was looked at; what the content of a type has to hold is for whoever shows it.
  return { ...rest, ...(typeof description === "string" ? { description } : {}) } as unknown as PromptAnswer;
}

/** The answer to `resources/read`. */
export function resourceAnswer(given: unknown): ResourceAnswer {
  const isGood =
    isRecord(given) &&
    Array.isArray(given.contents) &&
    given.contents.every(
      (content) =>
        isRecord(content) &&
        typeof content.uri === "string" &&
        (typeof content.text === "string" || typeof content.blob === "string"),
    );
  if (!isGood) throw odd("resources/read", "contents with a uri and a text or blob");
  // The form was looked at.
  return given as unknown as ResourceAnswer;
}

/** The answer to `completion/complete`; one that says nothing usable is no values. */
export function completionAnswer(given: unknown): CompletionAnswer {
  const { values, total, hasMore } =
    isRecord(given) && isRecord(given.completion) ? given.completion : ({} as Record<string, unknown>);
  return {
    values: Array.isArray(values) ? values.filter((value) => typeof value === "string").slice(0, 100) : [],
    ...(typeof total === "number" && Number.isInteger(total) ? { total } : {}),
    ...(typeof hasMore === "boolean" ? { hasMore } : {}),
  };
}

function odd(method: string, wanted: string): UpstreamError {
  return new UpstreamError(
    "broken",
    `Its answer to ${method} cannot be used: it must have ${wanted}. Tell whoever runs the server.`,
  );
}
