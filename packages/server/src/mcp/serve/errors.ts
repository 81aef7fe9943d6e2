import { CallRefused } from "../../calls/index.ts";
import { MissingPromptArguments } from "../../files/index.ts";
import { StoreUnavailable } from "../../store/index.ts";
import { type NeededAbility, RpcError, rpcCodes } from "../wire/index.ts";

/** Turns anything thrown into a protocol error. */
export function toRpcError(thrown: unknown): RpcError {
  if (thrown instanceof RpcError) return thrown;
  if (thrown instanceof StoreUnavailable) {
    const { code, message, reason, retryAfter } = thrown;
    return new RpcError(rpcCodes.unavailable, message, { code, reason, retryAfter });
  }
  if (thrown instanceof CallRefused) {
    const code = thrown.code === "tool_not_found" ? rpcCodes.invalidParams : rpcCodes.unavailable;
    const later = thrown.retryAfter === undefined ? {} : { retryAfter: thrown.retryAfter };
    return new RpcError(code, thrown.message, { code: thrown.code, ...thrown.details, ...later });
  }
  if (thrown instanceof MissingPromptArguments) return invalidParams(thrown.message);
  if (!(thrown instanceof Error)) return new RpcError(rpcCodes.internalError, "Internal error");
  // An upstream server's protocol error keeps its code and data.
  const { code, data } = thrown as { code?: unknown; data?: unknown }; // Whatever else an error may have.
  return new RpcError(
    Number.isSafeInteger(code) ? Number(code) : rpcCodes.internalError,
    thrown.message,
    data,
  );
}

export function invalidParams(message: string, data?: unknown): RpcError {
  return new RpcError(rpcCodes.invalidParams, message, data);
}

export function resourceNotFound(uri: string): RpcError {
  return invalidParams(`Resource not found: ${uri}`, { uri });
}

/** A parameter is invalid for this method. `place` is empty when the problem is not in one parameter. */
export function paramError(method: string, place: string, problem: string): RpcError {
  return invalidParams(
    `The parameters of ${method} do not fit: ${place === "" ? "" : `${place}: `}${problem}.`,
  );
}

/** The client did not declare a capability that its request needs. */
export function missingCapability(requiredCapabilities: NeededAbility, message?: string): RpcError {
  const names = Object.keys(requiredCapabilities).join(", ");
  const text = message ?? `Missing required client capabilities: ${names}`;
  return new RpcError(rpcCodes.missingCapability, text, { requiredCapabilities });
}
