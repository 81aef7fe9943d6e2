/** The rest of a long result is in the blob directory of another node, or was deleted. */
export class ResultElsewhereError extends Error {
  override readonly name = "ResultElsewhereError";
}
