import type { Grant } from "../../access/index.ts";
import { type Answer, approvalMark, INBOX, shownArguments, UnfitAnswer } from "../../calls/index.ts";
import { type RunView, runExcerpt, runOfQuestion } from "../../code/index.ts";
import { reasonOf } from "../../helpers/index.ts";
import type { StoredApproval } from "../../store/index.ts";
import { ClientDialog, currentDialog } from "./dialog.ts";
import type { RackServices } from "./mcp-services.ts";

/** How many characters of a call's arguments the person is shown. */
const LONGEST_INPUT = 4_000;

/**
 * When a question comes into the approval inbox, also asks the person at the MCP client that made the call,
 * if the client can show forms, `mayAsk` permits it and the client's grant may approve the call. A client
 * that may not be asked is told where the question waits. The first answer counts. Returns a function that
 * stops it.
 */
export function letClientsApprove(
  { approvals, service, store, logger }: Pick<RackServices, "approvals" | "service" | "store" | "logger">,
  mayAsk: (grant: Grant) => boolean,
): () => void {
  const asked = new Map<string, AbortController>();
  return approvals.subscribe((approval) => {
    const { id, state, callId } = approval;
    if (state !== "pending") {
      asked.get(id)?.abort("the question was answered elsewhere");
      asked.delete(id);
      return;
    }
    const dialog = service.clientOf(callId) ?? currentDialog.getStore();
    // Code that a call left behind, such as a timer, may ask after the call has ended and its client has gone.
    if (!(dialog instanceof ClientDialog) || dialog.isOver) return;
    const grant = dialog.peer.caller?.grant;
    if (grant === undefined || !mayAsk(grant) || !approvals.mayAnswer(approval, grant)) {
      return dialog.warn(waitsForOthers(approval), approval.toolName);
    }
    if (!dialog.can("elicitation/create", { mode: "form" })) {
      return dialog.warn(cannotAsk(approval), approval.toolName);
    }
    const withdrawn = new AbortController();
    asked.set(id, withdrawn);
    void runOfQuestion(approval, store.calls)
      .then((run) => ask(dialog, approval, run, withdrawn.signal))
      .then((answer) => answer && approvals.answer(id, answer, { name: nameOf(dialog, approval), grant }))
      .catch((thrown) => {
        const reason = reasonOf(thrown);
        logger.warn(`The approval ${id} could not be answered by the MCP client: ${reason}`);
      })
      .finally(() => asked.delete(id));
  });
}

/** Undefined when the client gives no answer: the question stays in the inbox, and the client is told so. */
async function ask(
  dialog: ClientDialog<unknown>,
  { id, message, input, toolName }: StoredApproval,
  run: RunView | undefined,
  signal: AbortSignal,
): Promise<Answer | undefined> {
  const params = {
    mode: "form",
    _meta: { [approvalMark]: toolName },
    message: [
      message,
      `${toolName} ${shownArguments(input, LONGEST_INPUT)}`,
      ...(run === undefined ? [] : [runExcerpt(run)]),
    ].join("\n\n"),
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
    // `Questions` has checked the form of the answer.
    answer = (await dialog.request("elicitation/create", params, signal)) as typeof answer;
  } catch (thrown) {
    // The client answered several times, never validly. That counts as a no, so that the call does not wait for ever.
    if (thrown instanceof UnfitAnswer) return { decision: "deny", reason: thrown.message };
    if (!signal.aborted) {
      dialog.warn(waitsInInbox(toolName, id, thrown), toolName);
    }
    return undefined;
  }
  const reason = answer.content?.reason;
  const withReason = typeof reason === "string" && reason !== "" ? { reason } : {};
  if (answer.action === "accept" && answer.content?.approve === true)
    return { decision: "allow", ...withReason };
  if (answer.action === "cancel") return { decision: "deny", reason: "the question was dismissed" };
  return { decision: "deny", ...withReason };
}

function cannotAsk({ id, toolName }: StoredApproval): string {
  return `"${toolName}" needs an approval, and this client cannot ask for it. The question waits in ${INBOX}: \`toolrack approvals approve ${id}\`. Until then the call waits.`;
}

function waitsForOthers({ id, toolName }: StoredApproval): string {
  return `"${toolName}" needs an approval that this client may not give. The question waits in ${INBOX}; somebody who may approve it answers there: \`toolrack approvals approve ${id}\`. Until then the call waits.`;
}

function waitsInInbox(toolName: string, id: string, thrown: unknown): string {
  const reason = reasonOf(thrown);
  return `The client gave no answer to whether "${toolName}" may run (${reason}). The question waits in the inbox, where somebody can answer it: in the console, or with \`toolrack approvals approve ${id}\`.`;
}

function nameOf({ name }: ClientDialog<unknown>, { caller }: StoredApproval): string {
  return name === "" ? `MCP client of ${caller}` : `${name} (${caller})`;
}
