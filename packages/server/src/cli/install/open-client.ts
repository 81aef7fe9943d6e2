import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { CliError, usageError } from "../cli-error.ts";
import type { ClientDocument } from "./client-document.ts";
import { type ClientFile, readClientFile } from "./client-file.ts";
import { clientPlaces } from "./client-places.ts";
import { type Client, type ClientId, clients } from "./clients.ts";
import { openJsonDocument } from "./json-document.ts";
import { openTomlDocument } from "./toml-document.ts";

export interface OpenClient {
  readonly file: ClientFile;
  readonly document: ClientDocument;
}

/** The file that the entry belongs into. Throws `CliError` when the client has none for projects. */
export function clientFileOf(id: ClientId, isProject: boolean): string {
  const client = clients[id];
  const candidates = isProject
    ? client.projectFiles?.map((file) => join(process.cwd(), file))
    : client.files(places());
  if (candidates === undefined) {
    throw usageError(
      `${client.name} is connected for the user only, not for a project. Leave --project out.`,
    );
  }
  return candidates.findLast((file) => existsSync(file)) ?? candidates[0] ?? "";
}

/** By the traces that a client leaves where it was started once. */
export function isClientThere(id: ClientId): boolean {
  const { mark, files } = clients[id];
  return [mark(places()), ...files(places())].some((path) => existsSync(path));
}

/** Reads the file. One that is not there, or empty, has no entries. Throws `CliError` when it cannot be understood. */
export async function openClient(client: Client, path: string, name: string): Promise<OpenClient> {
  const file = await readClientFile(path);
  const document = inFile(path, () => openDocument(client, file.text ?? "", name));
  return { file, document };
}

export function openDocument({ format, container }: Client, text: string, name: string): ClientDocument {
  return format === "json"
    ? openJsonDocument(text, container, name)
    : openTomlDocument(text, container, name);
}

/** Says of what cannot be understood where it stands. */
export function inFile<Value>(path: string, work: () => Value): Value {
  try {
    return work();
  } catch (thrown) {
    // What is nested without end, or immense, is more than the engine can walk through.
    if (!(thrown instanceof SyntaxError || thrown instanceof RangeError)) throw thrown;
    const reason = thrown instanceof SyntaxError ? thrown.message : "it is too large, or nested too deeply";
    throw new CliError(
      `${path} was left as it is, for it cannot be changed safely: ${reason}. Correct it, or write what --print shows into it yourself.`,
      { code: "invalid_file", details: { file: path, reason } },
    );
  }
}

function places() {
  return clientPlaces(process.env, homedir());
}
