import { CallRefused } from "../../calls/index.ts";
import { MissingPromptArguments } from "../../files/index.ts";
import { StoreUnavailable } from "../../store/index.ts";
import { type NeededAbility, RpcError, rpcCodes } from "../wire/index.ts";

/** What never became a call, or needs a store that cannot be used now, is an error of the protocol. */
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
  // Upstream servers answer with errors of the protocol too.
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

/** For a member of the parameters that is not what the method takes. */
export function misfit(method: string, place: string, problem: string): RpcError {
  return invalidParams(
    `The parameters of ${method} do not fit: ${place === "" ? "" : `${place}: `}${problem}.`,
  );
}

/** For a request that needs something of its client which that did not declare. */
export function missingCapability(requiredCapabilities: NeededAbility, message?: string): RpcError {
  const names = Object.keys(requiredCapabilities).join(", ");
  const text = message ?? `Missing required client capabilities: ${names}`;
  return new RpcError(rpcCodes.missingCapability, text, { requiredCapabilities });
}
