import { estimateTokens, redact } from "@toolrack/core/internal";
import { callerGone, type Route, routesFor, s } from "../../http/wire/index.ts";
import { failedEnd } from "../engine.ts";
import { ChatError, ProviderError, unreadable } from "../errors.ts";
import { type ModelEndpoint, usableCounts, wholeUsage } from "../model.ts";
import { connectionClosed } from "../model-messages.ts";
import { askProvider } from "../provider.ts";
import { type ChatRouteParts, errorOfEnd, requireChat, turnErrors } from "./route-errors.ts";

const requestSchema = s.object(
  {
    "model?": s.nullable(s.text({ maxLength: 200, description: "As `GET /v1/models` lists it." })),
    input: s.anything("Text, a list of texts, or tokens."),
  },
  { additionalProperties: true },
);

/** Passes requests for embeddings on to the provider of their model, with the provider's key. */
export function embeddingRoutes(parts: ChatRouteParts): Route[] {
  const route = routesFor("chat", "token");
  return [
    route("POST /v1/embeddings", "createEmbeddings", "Asks a provider for the embeddings of texts", {
      description:
        "Takes and answers what OpenAI's Embeddings do. The request goes to the provider of the model as it is, with the provider's own key. Nothing is run, so a failed request may be sent again.",
      body: requestSchema,
      answer: ["The provider's answer.", s.anyObject()],
      errors: turnErrors,
      async handle({ body, grant, incoming, outgoing }) {
        const chat = requireChat(parts);
        const { providers } = chat;
        const gone = callerGone(incoming, outgoing);
        try {
          return await providers.health.askInTurn(
            await providers.resolve(body.model ?? undefined),
            async (endpoint) => {
              const answer = await embed(endpoint, body, gone.signal);
              const estimated = { prompt: () => estimateTokens(JSON.stringify(body.input)), completion: 0 };
              chat.noteUsage(grant, endpoint, wholeUsage(usableCounts(answer.usage) ?? {}, estimated, false));
              return answer;
            },
          );
        } catch (thrown) {
          if (gone.signal.aborted) throw new ChatError("chat_cancelled", connectionClosed);
          if (!(thrown instanceof ProviderError)) throw thrown;
          throw errorOfEnd(failedEnd(thrown), true);
        } finally {
          gone.release();
        }
      },
    }),
  ];
}

/** Throws `ProviderError`, or the signal's reason. */
async function embed(
  endpoint: ModelEndpoint,
  request: object,
  signal: AbortSignal,
): Promise<Readonly<Record<string, unknown>>> {
  const body = { ...request, model: endpoint.model };
  const { data, ...others } = Object(await askProvider(endpoint, "/embeddings", { body, signal }));
  if (Array.isArray(data)) return { ...Object(redact(others, { mask: endpoint.mask() })), data };
  throw unreadable(endpoint, "no list of embeddings, because it has no data", JSON.stringify(others));
}
