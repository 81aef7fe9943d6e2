import { mayUseExpert } from "./may-use-expert.ts";
import type { ExpertResolver, ExpertView, Viewer } from "./viewer.ts";

interface Watched {
  readonly viewer: Viewer;
  readonly end: () => void;
}

export interface ExpertWatchParts {
  /** Without it there are no experts. */
  readonly experts?: ExpertResolver;
  /** By its id alone: another one may be called by the id of this one. */
  readonly expertById?: (id: string) => ExpertView | undefined;
  /** Calls the listener whenever an expert may be another one, until the function that it answers is called. */
  readonly onExpertsChanged?: (listener: () => void) => () => void;
}

/**
 * Keeps those who stay connected in step with their expert: they see what it has now, and end with it. What is watched
 * costs nothing until an expert changes.
 */
export class ExpertWatch {
  readonly #find: (id: string) => ExpertView | undefined;
  readonly #watched = new Set<Watched>();
  readonly #unsubscribe: () => void;

  constructor({ expertById = () => undefined, onExpertsChanged = () => () => {} }: ExpertWatchParts) {
    this.#find = expertById;
    this.#unsubscribe = onExpertsChanged(() => {
      for (const watched of [...this.#watched]) this.#look(watched);
    });
  }

  /** Calls `end`, which must not throw, when the expert is gone or no longer the viewer's. Returns how to watch no more. */
  watch(viewer: Viewer, end: () => void): () => void {
    if (viewer.expert === undefined) return () => {};
    const watched = { viewer, end };
    this.#watched.add(watched);
    // It may have changed before it was watched. Whoever asks has to know first how to watch no more.
    queueMicrotask(() => this.#look(watched));
    return () => this.#watched.delete(watched);
  }

  close(): void {
    this.#unsubscribe();
    this.#watched.clear();
  }

  #look(watched: Watched): void {
    const { viewer, end } = watched;
    const { expert, grant } = viewer;
    if (expert === undefined || !this.#watched.has(watched)) return;
    const now = this.#find(expert.id);
    if (now !== undefined && mayUseExpert(grant, now)) {
      viewer.renew(now);
      return;
    }
    this.#watched.delete(watched);
    viewer.renew(nothingOf(expert));
    end();
  }
}

/** For what is still under way when its expert is gone. */
function nothingOf({ id, name }: ExpertView): ExpertView {
  return { id, name, version: "gone", allow: () => false };
}
