import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { CallStore, StoredCall } from "../../../store/store.ts";
import { jsonText } from "../json-text.ts";
import type { Reply } from "../route.ts";
import { json } from "../send.ts";
import { detailOf } from "./call-view.ts";

/** Characters of the text that are in memory at one time. */
const PIECE = 256 * 1024;

/** Answers with the record as a file, and the whole text of its result piece by piece. */
export async function sendRecord(
  call: StoredCall,
  calls: Pick<CallStore, "readResult">,
  outgoing: ServerResponse,
): Promise<Reply> {
  const { callId } = call;
  // Whoever cannot be given the text is told so while there is still a status to say it with.
  const first = await calls.readResult(callId, 0, PIECE);
  outgoing.writeHead(200, {
    "Content-Type": json,
    "Content-Disposition": `attachment; filename="${callId.replace(/[^\w.-]/g, "_")}.json"`,
  });
  await pipeline(Readable.from(piecesOf(call, first, calls)), outgoing).catch((error) => {
    // Whoever hung up wants no more of it.
    if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
  });
  return "sent";
}

async function* piecesOf(
  call: StoredCall,
  first: Awaited<ReturnType<CallStore["readResult"]>>,
  calls: Pick<CallStore, "readResult">,
): AsyncGenerator<string> {
  const { result: _, ...facts } = detailOf(call);
  const { content, ...more } = call.result;
  // `result` goes last, and its text last of all: an object without its closing brace is all that stands before it.
  yield `${jsonText(facts).slice(0, -1)},"result":${jsonText(more).slice(0, -1)},"content":"`;
  let piece = first;
  if (piece === undefined) yield inQuotes(content);
  for (let offset = 0; piece !== undefined && piece.text !== ""; ) {
    // A character that is cut in two is written as two escapes, which are one character again for whoever reads them.
    yield inQuotes(piece.text);
    offset += piece.text.length;
    piece = offset < piece.total ? await calls.readResult(call.callId, offset, PIECE) : undefined;
  }
  yield '"}}';
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
