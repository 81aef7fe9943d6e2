import { ProviderError } from "./errors.ts";
import type { ModelEndpoint } from "./model.ts";

/** How long a model that failed once is not asked first, in seconds. With every further failure it is twice as long. */
const COOL_DOWN = 30;
const LONGEST_COOL_DOWN = 600;

type ModelName = Pick<ModelEndpoint, "provider" | "model">;

/** `until`: the end of the cool-down, in milliseconds since 1970. `reason`: why the model failed last. */
export type Health =
  | { readonly health: "ok" }
  | { readonly health: "cooling"; readonly until: number; readonly reason: string };

/**
 * Remembers which models failed lately. A model that failed cools down: others that can stand in for it are asked first,
 * and it only if all of them fail. After that time it has its old place again, and one answer makes it healthy.
 */
export class ProviderHealth {
  readonly #failed = new Map<string, { failures: number; until: number; reason: string }>();

  /**
   * Asks a model, and when it fails before it has said anything, its alternatives in turn. `ask` is given the model, and why
   * the one before did not answer.
   */
  async askInTurn<Answer>(
    first: ModelEndpoint,
    ask: (endpoint: ModelEndpoint, instead?: string) => Promise<Answer>,
  ): Promise<Answer> {
    let endpoint = first;
    for (let instead: string | undefined; ; ) {
      try {
        const answer = await ask(endpoint, instead);
        this.noteSuccess(endpoint);
        return answer;
      } catch (thrown) {
        if (!(thrown instanceof ProviderError && thrown.isLocal)) throw thrown;
        this.noteFailure(endpoint, thrown);
        const [next, ...alternatives] = endpoint.alternatives ?? [];
        if (next === undefined || thrown.hasAnswered) throw thrown;
        endpoint = { ...next, alternatives };
        instead = thrown.message;
      }
    }
  }

  noteFailure(name: ModelName, { message, retryAfter }: ProviderError): void {
    const known = this.#failed.get(keyOf(name));
    const failures = (known?.failures ?? 0) + 1;
    const own = Math.min(COOL_DOWN * 2 ** (failures - 1), LONGEST_COOL_DOWN);
    const until = Date.now() + Math.max(own, retryAfter ?? 0) * 1000;
    // Requests that ran at the same time and failed together count once.
    if (known !== undefined && known.until > Date.now()) known.reason = message;
    else this.#failed.set(keyOf(name), { failures, until, reason: message });
  }

  noteSuccess(name: ModelName): void {
    if (this.#failed.size > 0) this.#failed.delete(keyOf(name));
  }

  stateOf(name: ModelName): Health {
    const { until = 0, reason = "" } = this.#failed.get(keyOf(name)) ?? {};
    return until > Date.now() ? { health: "cooling", until, reason } : { health: "ok" };
  }

  /** The healthy models in their order, then the others; of these, the one whose cool-down ends first. */
  sorted<Name extends ModelName>(names: readonly Name[]): Name[] {
    const untilOf = (name: Name) => {
      const state = this.stateOf(name);
      return state.health === "ok" ? 0 : state.until;
    };
    return names.toSorted((one, other) => untilOf(one) - untilOf(other));
  }
}

function keyOf({ provider, model }: ModelName): string {
  return `${provider}/${model}`;
}
