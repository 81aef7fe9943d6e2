import { isRecord } from "../../schema/is-record.ts";

/** How a server is reached, as some client writes it. */
export type Entry = Readonly<Record<string, unknown>>;

/** Whether something says how a server is started or where it is, in the words of any client. */
export function isEntry(value: unknown): value is Entry {
  if (!isRecord(value)) return false;
  const { command, url, httpUrl, serverUrl, toolrack } = value;
  return (
    [command, url, httpUrl, serverUrl].some((reach) => typeof reach === "string") ||
    Array.isArray(command) ||
    (isRecord(command) && typeof command.path === "string") ||
    (isRecord(toolrack) && typeof toolrack.install === "string")
  );
}

/** The entry in the words of `mcpServers`. What is written so already, or not understood, stays as it is. */
export function toEntry(given: Entry): Entry {
  const { command, environment, httpUrl, serverUrl, type, ...rest } = given;
  return {
    ...typeOf(type),
    ...commandOf(command),
    ...rest,
    // opencode
    ...(isRecord(environment) && rest.env === undefined ? { env: environment } : {}),
    // Windsurf
    ...(typeof serverUrl === "string" ? { url: serverUrl } : {}),
    // Gemini, where `url` alone means the older transport
    ...(typeof httpUrl === "string" ? { url: httpUrl, type: "http" } : {}),
  };
}

/** opencode's words say what the rest of the entry says as well. */
function typeOf(type: unknown): Entry {
  return type === undefined || type === "local" || type === "remote" ? {} : { type };
}

function commandOf(command: unknown): Entry {
  if (command === undefined) return {};
  // opencode: the program and its arguments in one list.
  if (Array.isArray(command)) return { command: command[0], args: command.slice(1) };
  if (!isRecord(command)) return { command };
  // Zed: all of it in one object.
  const { path, ...rest } = command;
  return { command: path, ...rest };
}
