import type { WorkerLimits } from "../runners/sandbox/types.ts";

/** What the operator lets one sandboxed tool have, beside what every tool has. */
export interface SandboxGrant {
  /** Network hosts: `api.example.com`, `*.example.com`, `localhost:8080`, or `*` for every public one. */
  readonly hosts?: readonly string[];
  /** Tools outside the sandbox that it may call, as patterns: `internal_file_*`, `mcp:KEY`. */
  readonly tools?: readonly string[];
  /** Values of its environment that are no secrets. Secrets are set with `toolrack secrets set TOOL NAME`. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** How code is run that nobody reviewed. */
export interface SandboxConfig {
  /** By the name of the tool. */
  readonly grants?: Readonly<Record<string, SandboxGrant>>;
  /** Refuse to run sandboxed tools where the sandbox is weaker than this level. */
  readonly require?: 2 | 3;
  /** Let tools that came from elsewhere run although only level 2 can be had. Default false. */
  readonly allowForeign?: boolean;
  /** For every sandboxed tool. */
  readonly limits?: Partial<WorkerLimits>;
}

const texts = { type: "array", items: { type: "string", minLength: 1 } } as const;
const count = { type: "integer", minimum: 1 } as const;

const grant = {
  type: "object",
  additionalProperties: false,
  properties: {
    hosts: texts,
    tools: texts,
    environment: { type: "object", additionalProperties: { type: "string" } },
  },
} as const;

/** The JSON Schema of `SandboxConfig`. */
export const sandboxConfigSchema = {
  type: "object",
  additionalProperties: false,
  properties: {
    grants: { type: "object", additionalProperties: grant },
    require: { type: "integer", enum: [2, 3] },
    allowForeign: { type: "boolean" },
    limits: {
      type: "object",
      additionalProperties: false,
      properties: {
        memoryMb: count,
        cpuSeconds: count,
        processes: count,
        outputBytes: count,
        scratchMb: count,
        maxCallsPerWorker: count,
        idleMs: count,
        concurrency: count,
        workers: count,
        initMs: count,
        cleanupMs: count,
        graceMs: count,
      } satisfies Record<keyof WorkerLimits, typeof count>,
    },
  },
} as const;

/** What is wrong with a config that fits the schema: a host that is none would grant nothing, and nobody would notice. */
export async function sandboxConfigProblems({ grants }: SandboxConfig = {}): Promise<string[]> {
  if (grants === undefined) return [];
  const { grantProblem } = await import("../runners/sandbox/egress/grants.ts");
  return Object.entries(grants).flatMap(([tool, { hosts = [] }]) =>
    hosts.flatMap((host, index) => {
      const problem = grantProblem(host);
      return problem === undefined ? [] : [`sandbox.grants.${tool}.hosts[${index}]: ${problem}`];
    }),
  );
}
