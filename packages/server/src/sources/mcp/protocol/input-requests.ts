import { isRecord } from "../../../json/is-record.ts";
import { askWithin, canAnswer, cannotAsk, isClientMethod, MOST_OPEN, tooManyAtOnce } from "./ask-caller.ts";
import type { LaneRequest } from "./request-lane.ts";
import { UpstreamError } from "./upstream-error.ts";

/** What is needed to answer what a server asks in the middle of a request. */
export interface InputSurroundings {
  /** The key of the server, for messages. */
  readonly server: string;
  /** Answers `roots/list` where no caller can. */
  readonly roots: readonly object[];
  /** How long somebody may think about a question of the server, in milliseconds. */
  readonly patience: number;
}

/** Has the caller answer what a server of the stateless protocol asks. Rejects where somebody cannot be asked that. */
export async function answersTo(
  asked: readonly (readonly [string, unknown])[],
  request: LaneRequest,
  surroundings: InputSurroundings,
): Promise<Record<string, unknown>> {
  if (asked.length > MOST_OPEN)
    throw new UpstreamError("busy", tooManyAtOnce(asked.length, surroundings.server));
  const answers = await Promise.all(
    asked.map(async ([key, question]) => [key, await answerTo(question, request, surroundings)] as const),
  );
  return Object.fromEntries(answers);
}

async function answerTo(
  question: unknown,
  { client, signal }: LaneRequest,
  { roots, patience }: InputSurroundings,
): Promise<unknown> {
  const { method, params } = isRecord(question) ? question : {};
  if (typeof method !== "string" || !isClientMethod(method)) {
    throw new UpstreamError(
      "refused",
      `The server asked for "${String(method)}", which nobody can be asked for.`,
    );
  }
  const asked = isRecord(params) ? params : {};
  if (client === undefined || !canAnswer(client, method, asked)) {
    if (method === "roots/list") return { roots };
    throw new UpstreamError("refused", cannotAsk(method));
  }
  const signals = signal === undefined ? [] : [signal];
  return askWithin(patience, client, { method, params: asked, signals });
}
