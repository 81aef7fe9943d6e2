import type { Setting, Tool } from "../../api/index.ts";
import { isRecord } from "../../text/index.ts";

/** A variable that a tool declares, and whether it has a value. */
export interface Variable {
  readonly name: string;
  readonly description: string;
  readonly isRequired: boolean;
  readonly isSecret: boolean;
  readonly usual: string | undefined;
  /** `tool`: set for this tool only. `all`: set for every tool that declares it. */
  readonly setFor: "tool" | "all" | undefined;
  /** Only of settings. */
  readonly value: string | undefined;
}

export interface BusinessError {
  readonly code: string;
  readonly description?: string;
  readonly solution?: string;
  readonly match?: string;
  readonly retryable?: boolean;
}

/** What a tool declares about itself, as its author wrote it. */
export function manualOf({ metadata }: Tool) {
  const single = isRecord(metadata.singleFile) ? metadata.singleFile : undefined;
  const environment = single?.environment ?? metadata.environment;
  const { dependencies, businessErrors, hosts } = single ?? {};
  return {
    isSingleFile: single !== undefined,
    version: textOf(metadata.version),
    author: textOf(metadata.author),
    environment: isRecord(environment) ? environment : undefined,
    dependencies: Object.entries(isRecord(dependencies) ? dependencies : {}).map(
      ([name, range]) => `${name} ${String(range)}`,
    ),
    errors: Array.isArray(businessErrors) ? businessErrors.filter(isBusinessError) : [],
    hosts: Array.isArray(hosts) ? hosts.map(String) : [],
  };
}

/** The declared variables of a tool; `stored` are the settings and secrets of the workspace. */
export function variablesOf(
  tool: string,
  environment: Readonly<Record<string, unknown>> | undefined,
  stored: readonly Partial<Pick<Setting, "name" | "value">>[],
): Variable[] {
  const { properties, required } = environment ?? {};
  const wanted: readonly unknown[] = Array.isArray(required) ? required : [];
  return Object.entries(isRecord(properties) ? properties : {}).map(([name, found]) => {
    const schema = isRecord(found) ? found : {};
    const own = stored.find((value) => value.name === `${tool}/${name}`);
    const shared = stored.find((value) => value.name === name);
    return {
      name,
      description: textOf(schema.description) ?? "",
      isRequired: wanted.includes(name),
      isSecret: schema.format === "password" || schema.writeOnly === true,
      usual:
        schema.default === undefined ? undefined : (textOf(schema.default) ?? JSON.stringify(schema.default)),
      setFor: own !== undefined ? "tool" : shared !== undefined ? "all" : undefined,
      value: (own ?? shared)?.value,
    };
  });
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function isBusinessError(value: unknown): value is BusinessError {
  return isRecord(value) && typeof value.code === "string";
}
