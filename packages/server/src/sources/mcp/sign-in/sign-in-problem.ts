import { isRecord } from "../../../json/is-record.ts";
import { sentence } from "../protocol/sentence.ts";

/** What went wrong between the rack and an authorization server, in words. They are not masked yet. */
export function signInProblem(thrown: unknown): string {
  const { message, cause } = thrown instanceof Error ? thrown : new Error(String(thrown));
  const plain = message === "fetch failed" && cause instanceof Error ? cause.message : message;
  return issueIn(thrown) ?? oddAnswer(thrown) ?? plain;
}

/** Of a text that has the wrong form, Zod lists everything that is wrong with it; one thing of it is enough to know. */
function issueIn(thrown: unknown): string | undefined {
  const { issues } = (thrown ?? {}) as { readonly issues?: unknown };
  const [first] = Array.isArray(issues) ? issues : [];
  if (!isRecord(first)) return undefined;
  const path = Array.isArray(first.path) ? first.path.join(".") : "";
  return `What the authorization server says about itself cannot be used: ${sentence(`${path}: ${String(first.message)}`)}`;
}

/** Those who answer with a good status and no JSON say nothing about why. */
function oddAnswer(thrown: unknown): string | undefined {
  if (!(thrown instanceof SyntaxError)) return undefined;
  const what = /end of JSON input/.test(thrown.message)
    ? "an answer that is empty or cut off"
    : "something that is no JSON";
  return `The authorization server sent ${what} where it should have described itself, a client or tokens. Tell whoever runs it, or register the rack there by hand and name the client in the entry: toolrack.oauth.clientId.`;
}
