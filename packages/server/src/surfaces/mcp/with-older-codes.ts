import { type JSONRPCMessage, ProtocolErrorCode, type Transport } from "@modelcontextprotocol/server";
import { isRecord } from "../../json/is-record.ts";

/**
 * Versions before 2026-07-28 have a code of their own for a resource that there is not. The SDK sends the newer one to
 * everybody, whatever it is told, so that it is changed on its way out.
 */
export function withOlderCodes<Connection extends Transport>(transport: Connection): Connection {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => send(inOlderCode(message), options);
  return transport;
}

function inOlderCode(message: JSONRPCMessage): JSONRPCMessage {
  if (!("error" in message)) return message;
  const { code, data } = message.error;
  // As the SDK has it: wrong parameters of which nothing is said but the address are a resource that there is not.
  const isMissing =
    code === ProtocolErrorCode.InvalidParams && isRecord(data) && typeof data.uri === "string";
  if (!isMissing || Object.keys(data).length > 1) return message;
  return { ...message, error: { ...message.error, code: ProtocolErrorCode.ResourceNotFound } };
}
