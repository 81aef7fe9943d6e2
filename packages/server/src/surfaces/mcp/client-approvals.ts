import type { Logger } from "@toolrack/core";
import type { Answer } from "../../approvals/answer.ts";
import type { ApprovalInbox } from "../../approvals/approval-inbox.ts";
import { shownArguments } from "../../approvals/shown-arguments.ts";
import { UnfitAnswer } from "../../approvals/unfit-answer.ts";
import type { StoredApproval } from "../../store/approvals/approval-store.ts";
import { currentExchange } from "./current-exchange.ts";
import type { Exchange } from "./exchange.ts";

/** Characters of the arguments that the person is shown. */
const LONGEST_INPUT = 4_000;

/**
 * Puts questions that wait in the inbox to the person at the MCP client too, when it can ask them. The first answer
 * counts, wherever it comes from. Answers how to stop.
 */
export function letClientsApprove(approvals: ApprovalInbox, logger: Logger): () => void {
  const asked = new Map<string, AbortController>();
  return approvals.subscribe((approval) => {
    const { id, state } = approval;
    if (state !== "pending") {
      asked.get(id)?.abort("the question was answered elsewhere");
      asked.delete(id);
      return;
    }
    const exchange = currentExchange.getStore();
    // What a call leaves behind, such as a timer, may ask when the call and its client are long gone.
    if (exchange === undefined || exchange.isOver) return;
    if (!exchange.can("elicitation/create", { mode: "form" })) return;
    const withdrawn = new AbortController();
    asked.set(id, withdrawn);
    void ask(exchange, approval, withdrawn.signal)
      .then((answer) => answer && approvals.answer(id, answer, approverOf(exchange, approval)))
      .catch((thrown) => {
        const reason = thrown instanceof Error ? thrown.message : String(thrown);
        logger.warn(`The approval ${id} could not be answered by the MCP client: ${reason}`);
      })
      .finally(() => asked.delete(id));
  });
}

/** Undefined when the client gives no answer: then the question goes on waiting in the inbox, and the client is told. */
async function ask(
  exchange: Exchange<unknown>,
  { id, message, input, toolName }: StoredApproval,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const params = {
    mode: "form",
    message: `${message}\n\n${toolName} ${shownArguments(input, LONGEST_INPUT)}`,
    requestedSchema: {
      type: "object",
      properties: {
        approve: { type: "boolean", title: "Allow this call", default: false },
        reason: { type: "string", title: "Reason", description: "The model is told it when you refuse." },
      },
      required: ["approve"],
    },
  };
  let answer: { action?: unknown; content?: { approve?: unknown; reason?: unknown } };
  try {
    answer = (await exchange.request("elicitation/create", params, signal)) as typeof answer; // Checked on arrival.
  } catch (thrown) {
    // It did answer, again and again, and never with a clear yes: whoever waits for the call is not left waiting.
    if (thrown instanceof UnfitAnswer) return { decision: "deny", reason: thrown.message };
    if (!signal.aborted) {
      const data = waitsInInbox(toolName, id, thrown);
      exchange.notify("notifications/message", { level: "warning", logger: toolName, data });
    }
    return undefined;
  }
  const reason = answer.content?.reason;
  const said = typeof reason === "string" && reason !== "" ? { reason } : {};
  if (answer.action === "accept" && answer.content?.approve === true) return { decision: "allow", ...said };
  if (answer.action === "cancel") return { decision: "deny", reason: "the question was dismissed" };
  return { decision: "deny", ...said };
}

function waitsInInbox(toolName: string, id: string, thrown: unknown): string {
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return `The client gave no answer to whether "${toolName}" may run (${reason}). The question waits in the inbox, where somebody can answer it: in the console, or with \`toolrack approvals approve ${id}\`.`;
}

function approverOf({ name }: Exchange<unknown>, { caller }: StoredApproval): string {
  return name === "" ? `MCP client of ${caller}` : `${name} (${caller})`;
}
