/** A call as a model asked for it, whatever the provider. */
export interface ToolCallRequest {
  /** The provider's id; made from the position in the message when the provider gave none. */
  readonly id: string;
  /** The name the model used. Empty when it gave none: the call still needs an answer. */
  readonly name: string;
  /** An object when the provider parsed it; the text as it came when it did not. The pipeline parses and repairs. */
  readonly arguments: unknown;
}

const madeUpPrefix = "call_at_";

export function callIdAt(position: number): string {
  return `${madeUpPrefix}${position}`;
}

/** Whether the id was made here, so that the provider does not know it. */
export function isMadeUpCallId(id: string): boolean {
  return id.startsWith(madeUpPrefix);
}

/** The id if there is one, else one made from the position. */
export function callIdOr(id: unknown, position: number): string {
  return typeof id === "string" && id !== "" ? id : callIdAt(position);
}
