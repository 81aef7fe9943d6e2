import type { ServerEntry } from "./server-entry.ts";

/** An entry as the files of many programs have it. */
export interface WrittenEntry extends Omit<ServerEntry, "type" | "env" | "headers"> {
  readonly type?: string;
  readonly env?: Readonly<Record<string, Plain>>;
  readonly headers?: Readonly<Record<string, Plain>>;
  readonly disabled?: boolean;
  /** A `url`, as Windsurf has it. */
  readonly serverUrl?: string;
  /** The `url` of a server that speaks Streamable HTTP, as Gemini CLI has it. */
  readonly httpUrl?: string;
  /** Tools that are switched off, as Cline, Roo and Windsurf have them. */
  readonly disabledTools?: readonly string[];
}

type Plain = string | number | boolean;

/**
 * What other programs write in another way, as it is written here. What they let tools do without being asked
 * (`autoApprove`, `alwaysAllow`) was agreed to with another program, and does not count here. Throws an `Error` that names
 * a key that cannot be used.
 */
export function oneForm(written: WrittenEntry): Omit<ServerEntry, "type"> & { readonly type?: string } {
  const { type, disabled, enabled, serverUrl, httpUrl, disabledTools, env, headers, ...rest } = written;
  const transport = transportOf(type ?? (httpUrl === undefined ? undefined : "http"));
  const url = onlyAddress({ url: rest.url, serverUrl, httpUrl });
  const { tools, ...others } = rest.toolrack ?? {};
  const disable = [...new Set([...(tools?.disable ?? []), ...(disabledTools ?? [])])];
  return {
    ...rest,
    ...(url === undefined ? {} : { url }),
    ...(env === undefined ? {} : { env: texts(env, "env") }),
    ...(headers === undefined ? {} : { headers: texts(headers, "headers") }),
    ...(disabledTools === undefined ? {} : { toolrack: { ...others, tools: { ...tools, disable } } }),
    ...(transport === undefined ? {} : { type: transport }),
    ...(disabled === true || enabled === false ? { enabled: false } : {}),
  };
}

function transportOf(type: string | undefined): string | undefined {
  return type === "streamable-http" || type === "streamableHttp" ? "http" : type;
}

function onlyAddress(addresses: Readonly<Record<string, string | undefined>>): string | undefined {
  const given = Object.entries(addresses).filter(([, address]) => address !== undefined);
  const [[key, address] = [], [otherKey] = []] = given;
  if (new Set(given.map(([, one]) => one)).size > 1) {
    throw new Error(`It has both a ${key} and a ${otherKey}. Keep the one by which the server is reached.`);
  }
  return address;
}

/** Numbers and truth values as they are written. */
function texts(values: Readonly<Record<string, Plain>>, where: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      // A number of so many digits was already read as another one.
      if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
        throw new Error(`${where}.${name}: So long a number loses digits. Write it in quotation marks.`);
      }
      return [name, String(value)];
    }),
  );
}
