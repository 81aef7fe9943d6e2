import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import type { ToolContext } from "@toolrack/core";
import type { SandboxGrant, WorkerLimits } from "../../config/index.ts";
import { toolMatcher } from "../../config/index.ts";
import type { StackMapper } from "../../helpers/index.ts";
import type { Sandbox, WorkerSpec } from "../sandbox.ts";
import { CallHost, type CallHostParts, readOutcome } from "./call-host.ts";
import { resolveEnvironment } from "./check-description.ts";
import type { DescribedFile } from "./description.ts";
import type { KeptItems } from "./kept-items.ts";
import type { ExecuteParams, LogLine, WorkerSettings } from "./messages.ts";

/** The values that are set for tools, each under the tool's own name. */
export interface ToolVariables {
  get(tool: string, name: string): Promise<string | undefined>;
  /** Undefined removes it. */
  set(tool: string, name: string, value: string | undefined): Promise<void>;
}

export interface SingleFileToolParts {
  readonly name: string;
  readonly file: DescribedFile;
  /** As stack traces name it. */
  readonly filename: string;
  /** What its worker evaluates. */
  readonly code: string;
  readonly hosts: readonly string[];
  readonly grant: SandboxGrant;
  readonly isForeign: boolean;
  readonly limits: Partial<WorkerLimits>;
  readonly sandbox: () => Promise<Sandbox>;
  readonly variables: ToolVariables;
  readonly items: KeptItems;
  /** A folder that programs which the tool starts find themselves in. */
  readonly programFolder: string;
  readonly stacks: StackMapper;
  readonly log: (line: LogLine, context: ToolContext<never> | undefined) => void;
}

/** Programs of one tool at once; each of them may have the memory that the tool has. */
const PROGRAMS_AT_ONCE = 4;

/** One version of one tool: runs its calls in workers that know nothing of any other tool. */
export class SingleFileTool {
  readonly #parts: SingleFileToolParts;
  readonly #isCallable: CallHostParts["isCallable"];
  /** By what the workers are given; a value that changes makes a new one. */
  readonly #specs = new Map<"real" | "dry", { readonly given: string; readonly spec: WorkerSpec }>();
  readonly #keys = new Set<string>();

  constructor(parts: SingleFileToolParts) {
    this.#parts = parts;
    this.#isCallable = toolMatcher(parts.grant.tools);
  }

  async run(context: ToolContext<never>): Promise<unknown> {
    const { name, items, sandbox, stacks } = this.#parts;
    const isDryRun = context.extra.dryRun === true;
    const environment = await this.#environment(isDryRun);
    const storageVersion = await items.refresh();
    const box = await sandbox();
    const spec = this.#specFor(environment, isDryRun, box);
    const params: ExecuteParams = { input: context.input, storageVersion };
    const host = new CallHost(context, this.#hostParts(context, isDryRun, box, spec));
    const { onRequest, onNotify } = host;
    const { signal } = context;
    const outcome = await box.invoke(spec, { method: "execute", params, signal, onRequest, onNotify });
    return readOutcome(outcome, name, stacks);
  }

  /** Lets its workers end, once their calls have. */
  async retire(): Promise<void> {
    if (this.#keys.size > 0) (await this.#parts.sandbox()).retire(this.#keys);
  }

  async #environment(isLenient: boolean): Promise<Record<string, unknown>> {
    const { name, file, grant, variables } = this.#parts;
    const { environment } = file.description;
    if (environment === undefined) return {};
    const lookUp = async (key: string) => (await variables.get(name, key)) ?? grant.environment?.[key];
    return resolveEnvironment({ tool: name, schema: environment, lookUp, isLenient });
  }

  #specFor(environment: Record<string, unknown>, isDryRun: boolean, box: Sandbox): WorkerSpec {
    const kind = isDryRun ? "dry" : "real";
    const given = JSON.stringify(environment);
    const before = this.#specs.get(kind);
    if (before?.given === given) return before.spec;
    // A worker keeps what it was given: one with old values must not serve another call.
    if (before !== undefined) box.retire([before.spec.key]);
    const spec = this.#makeSpec(environment, given, isDryRun);
    this.#specs.set(kind, { given, spec });
    this.#keys.add(spec.key);
    return spec;
  }

  #makeSpec(environment: Record<string, unknown>, given: string, isDryRun: boolean): WorkerSpec {
    const { name, file, filename, code, hosts, isForeign, limits, items, log } = this.#parts;
    const reachable = isDryRun ? [] : hosts;
    const parts = [file.hash, file.dependencies ?? "", given, reachable.join(), String(isDryRun)];
    const version = createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 32);
    const settings: Omit<WorkerSettings, "storage"> = {
      tool: name,
      isDescribing: false,
      isDryRun,
      environment,
      dependencies: Object.keys(file.description.dependencies),
    };
    return {
      key: `${name}:${version}`,
      label: name,
      code,
      filename,
      hosts: reachable,
      foreign: isForeign,
      onLog: (line) => log(line, undefined),
      // What a dry run stores and leaves in memory is gone with its worker.
      limits: { concurrency: 1, ...limits, ...(isDryRun ? { maxCallsPerWorker: 1 } : {}) },
      ...(file.dependencies === undefined ? {} : { dependencies: file.dependencies }),
      // Read when a worker starts: it begins with what is stored then.
      get settings(): WorkerSettings {
        return { ...settings, storage: items.snapshot() };
      },
    };
  }

  #hostParts(context: ToolContext<never>, isDryRun: boolean, box: Sandbox, spec: WorkerSpec): CallHostParts {
    const { name, file, items, variables, programFolder, log } = this.#parts;
    return {
      tool: name,
      items,
      isDryRun,
      isCallable: this.#isCallable,
      variables: Object.keys(file.description.environment?.properties ?? {}),
      setVariable: (key, value) => variables.set(name, key, value),
      runProgram: async (command, args, { input, timeoutMs, environment }) => {
        await mkdir(programFolder, { recursive: true });
        const { hosts, foreign } = spec;
        const limits = { ...spec.limits, timeoutMs, atOnce: PROGRAMS_AT_ONCE };
        const program = {
          label: name,
          command,
          args,
          directory: programFolder,
          environment,
          hosts,
          foreign,
          limits,
        };
        return box.run(program, input, context.signal);
      },
      log: (line) => log(line, context),
    };
  }
}
